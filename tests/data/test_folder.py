"""Folders of images."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome
from PIL import Image

from fedkf.core.errors import UserError
from fedkf.data.folder import folder, open_image
from fedkf.data.source import Source
from fedkf.data.sources import load
from fedkf.data.targets import Targets


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))


def save(path: Path, pixels: np.ndarray, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)  # type: ignore[arg-type]


@pytest.fixture
def hospitals(tmp_path: Path) -> Path:
    """Two hospitals, three classes of which one is missing in the second; sizes differ."""
    random = np.random.default_rng(0)
    for hospital, kinds in (("north", "abc"), ("south", "ab")):
        for kind in kinds:
            for k in range(8):
                side = int(random.integers(16, 30))
                pixels = random.integers(0, 200, (side, side + 3), np.uint8)
                save(tmp_path / "scans" / hospital / kind / f"{k}.png", pixels)
    return tmp_path / "scans"


def read(path: Path, size: int | None = 20, names: list[str] | None = None) -> Source:
    return load("folder", str(path), Targets(class_names=names), size)


def test_client_folders_own_what_is_in_them(hospitals: Path) -> None:
    source = read(hospitals)
    assert source.inputs.shape == (40, 1, 20, 20)
    assert source.class_names == ["a", "b", "c"]
    assert source.owner_names == ["north", "south"]
    assert source.owners is not None
    assert np.bincount(source.owners).tolist() == [24, 16]
    assert set(source.labels[source.owners == 1]) == {0, 1}


def test_class_folders_alone_have_no_owners(hospitals: Path) -> None:
    assert read(hospitals / "north").owners is None


def test_the_order_of_classes_comes_from_the_configuration_if_it_says(hospitals: Path) -> None:
    source = read(hospitals, names=["c", "b", "a", "unseen"])
    assert source.class_names == ["c", "b", "a", "unseen"]
    assert set(source.labels[source.owners == 1]) == {1, 2}
    with pytest.raises(UserError, match=r"label 'c' is not in data\.class_names"):
        read(hospitals, names=["a", "b"])


@pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "webp"])
def test_every_format_is_read(tmp_path: Path, ending: str) -> None:
    for k, kind in enumerate("ab"):
        save(tmp_path / "x" / kind / f"1.{ending}", np.full((8, 8, 3), 200 * k, np.uint8))
    source = read(tmp_path / "x", size=None)
    assert source.inputs.shape == (2, 3, 8, 8)
    assert abs(int(source.inputs[1].mean()) - 200) < 4


def test_16_bits_become_8_and_one_image_in_colour_makes_all_so(tmp_path: Path) -> None:
    save(tmp_path / "x" / "a" / "1.png", np.full((8, 8), 65535, np.uint16))
    save(tmp_path / "x" / "b" / "1.png", np.full((8, 8), 32768, np.uint16))
    assert sorted(np.unique(read(tmp_path / "x", None).inputs)) == [128, 255]
    save(tmp_path / "x" / "b" / "2.png", np.zeros((8, 8, 3), np.uint8))
    assert read(tmp_path / "x", None).inputs.shape == (3, 3, 8, 8)


def test_a_second_start_reads_the_cache_and_a_changed_file_is_noticed(hospitals: Path) -> None:
    first = read(hospitals)
    assert isinstance(first.inputs.base, np.memmap | np.ndarray)
    victim = hospitals / "north" / "a" / "0.png"
    stat, content = victim.stat(), victim.read_bytes()
    victim.write_bytes(b"x" * len(content))  # unreadable, but of the same size and time
    os.utime(victim, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert np.array_equal(read(hospitals).inputs, first.inputs)
    os.utime(victim)
    with pytest.raises(UserError, match=r"north/a/0\.png is not a readable image"):
        read(hospitals)
    victim.write_bytes(content)
    assert np.array_equal(read(hospitals).inputs, first.inputs)


def test_mistakes_are_told_in_a_sentence(tmp_path: Path, hospitals: Path) -> None:
    (tmp_path / "empty").mkdir()
    save(tmp_path / "flat" / "1.png", np.zeros((8, 8), np.uint8))
    save(tmp_path / "one" / "a" / "1.png", np.zeros((8, 8), np.uint8))
    save(tmp_path / "mixed" / "a" / "1.png", np.zeros((8, 8), np.uint8))
    save(tmp_path / "mixed" / "b" / "c" / "1.png", np.zeros((8, 8), np.uint8))
    for path, size, sentence in [
        (tmp_path / "gone", 8, "no folder"),
        (tmp_path / "empty", 8, "holds no images"),
        (tmp_path / "flat", 8, "must lie in CLASS/image or CLIENT/CLASS/image"),
        (tmp_path / "mixed", 8, "must lie in CLASS/image or CLIENT/CLASS/image"),
        (tmp_path / "one", 8, "a classifier needs at least two"),
        (hospitals, None, r"images differ in size.*set data.image_size"),
    ]:
        with pytest.raises(UserError, match=sentence):
            read(path, size)


def test_from_a_folder_per_hospital_to_a_prediction(
    hospitals: Path, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    settings = ("data.source=folder", f"data.path={hospitals}", "data.image_size=20")
    more = ("federation.rounds=2", "federation.fraction=1", "generator.width=4")
    arguments = [part for text in (*settings, *more) for part in ("--set", text)]
    (hospitals / "south" / "a" / "broken.png").write_bytes(b"no image")
    code, _, err = cli("run", *arguments, "--out", tmp_path / "run")
    assert code == 2
    assert "south/a/broken.png is not a readable image" in err
    (hospitals / "south" / "a" / "broken.png").unlink()
    code, out, err = cli("run", *arguments, "--out", tmp_path / "run")
    assert code == 0, err
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert "class_names: [a, b, c]" in config
    assert "partition: natural" in config
    assert "clients: 2" in config
    code, out, _ = cli("evaluate", tmp_path / "run")
    assert code == 0
    assert "north" in out
    code, out, err = cli("evaluate", tmp_path / "run", "--data", hospitals / "south")
    assert code == 0
    assert f"note: {hospitals / 'south'} lies in the run's own data" in err
    (hospitals / "south" / "a" / "broken.png").write_bytes(b"no image")
    code, _, err = cli("evaluate", tmp_path / "run", "--data", hospitals / "south")
    assert code == 2
    assert err.endswith("(remove or mend such files)\n")
    (hospitals / "south" / "a" / "broken.png").unlink()
    code, out, _ = cli("predict", tmp_path / "run", hospitals / "north" / "a" / "1.png")
    assert code == 0
    assert out.startswith(str(hospitals / "north" / "a" / "1.png"))
    assert cli("predict", tmp_path / "run", hospitals).code == 2


def test_links_that_lead_back_end(hospitals: Path) -> None:
    (hospitals / "elsewhere").symlink_to(hospitals / "north" / "c")
    north = read(hospitals / "north")
    (hospitals / "elsewhere").unlink()
    (hospitals / "north" / "d").symlink_to(hospitals / "south" / "a")  # another folder's images
    assert len(read(hospitals / "north").labels) == len(north.labels) + 8
    for name in "efgh":
        (hospitals / "north" / name).symlink_to(hospitals)
    with pytest.raises(UserError, match=r"north/[efgh] is a link to a folder that it lies in"):
        read(hospitals)


def test_names_that_cannot_be_shown_and_files_that_are_none_are_refused(hospitals: Path) -> None:
    odd = os.fsencode(hospitals / "north") + b"/\xff"
    os.mkdir(odd)
    os.link(hospitals / "north" / "a" / "0.png", odd + b"/0.png")
    with pytest.raises(UserError, match="holds characters that cannot be shown") as caught:
        read(hospitals)
    assert str(caught.value).isprintable()
    os.unlink(odd + b"/0.png")
    pipe, lost = hospitals / "north" / "a" / "pipe.png", hospitals / "north" / "a" / "lost.png"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match=r"pipe\.png is not a file"):
        read(hospitals)
    pipe.unlink()
    lost.symlink_to("nowhere.png")
    with pytest.raises(UserError, match=r"lost\.png cannot be read: No such file"):
        read(hospitals)


def test_an_image_that_would_start_a_program_or_fill_the_memory_is_not_decoded(
    hospitals: Path, tmp_path: Path
) -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n%%EOF\n"
    (hospitals / "north" / "a" / "0.png").write_bytes(script)
    with pytest.raises(UserError, match=r"a/0\.png is not a readable image.*UnidentifiedImageErr"):
        read(hospitals)
    save(tmp_path / "large.png", np.zeros((2000, 2000), np.uint8))
    assert "do not fit into this machine's memory" in str(
        open_image(tmp_path / "large.png", None, 10_000_000)
    )


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'"../../x"', b"\xff", b'"' + b"0" * 32])
def test_a_damaged_index_of_the_cache_is_made_anew(hospitals: Path, content: bytes) -> None:
    first = read(hospitals)
    (index,) = (hospitals.parent / "cache" / "index").iterdir()
    index.write_bytes(content)
    assert np.array_equal(read(hospitals).inputs, first.inputs)


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """What the system says to a user who may not read a folder; tests may run as root."""
    scandir = os.scandir

    def guarded(path: str) -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)


@pytest.mark.parametrize("closed", ["south", "south/b"])
def test_a_folder_that_cannot_be_read_is_refused(
    hospitals: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_open(monkeypatch, hospitals / closed)
    with pytest.raises(UserError, match=rf"scans/{closed}' cannot be read: Permission"):
        read(hospitals)


def test_a_hidden_folder_need_not_be_read(hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hospitals / ".Trashes").mkdir()
    refuse_to_open(monkeypatch, hospitals / ".Trashes")
    assert read(hospitals).owner_names == ["north", "south"]


def test_folders_without_an_image_are_told(hospitals: Path) -> None:
    (hospitals / "east" / "a").mkdir(parents=True)
    (hospitals / "west" / "a").mkdir(parents=True)
    (hospitals / "west" / "a" / "1.dcm").write_bytes(b"DICM")
    (hospitals / ".cache").mkdir()
    said: list[str] = []
    source = load("folder", str(hospitals), Targets(), 20, said.append)
    assert source.owner_names == ["north", "south"]
    assert f"left out 2 folders below {hospitals} without an image (east, west)" in said


def test_a_site_whose_images_are_all_skipped_is_told(hospitals: Path) -> None:
    for kind in "ab":
        (hospitals / "east" / kind).mkdir(parents=True)
        (hospitals / "east" / kind / "1.png").write_bytes(b"no image")
    said: list[str] = []
    folder(str(hospitals), Targets(), 20, said.append, skip=True)
    assert any(text.endswith("(east 2); no image is left of east") for text in said)
