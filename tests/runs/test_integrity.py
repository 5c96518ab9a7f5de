"""Integrity: a file that is not what the run had written is named, and nothing else happens."""

from __future__ import annotations

import re
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome, Settings, tiny

import fedkf
from fedkf.core.errors import FedkfError, UserError
from fedkf.runs.integrity import check_run


@pytest.fixture(scope="module")
def run(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fedkf.run(tiny(npz), rounds=2, algorithm="scaffold", out=folder)
    return folder


def flip(path: Path) -> None:
    """One bit of the last byte, which is a tensor's or the end of a text."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(bytes(content))


def one(pattern: str) -> Callable[[Path], Path]:
    return lambda folder: sorted(folder.glob(pattern))[0]


FILES = {
    "slot": one("checkpoint/slots-overall/*.safetensors"),
    "private state": one("checkpoint/clients/*.safetensors"),
    "server state": one("checkpoint/state.*.safetensors"),
    "first weights": one("checkpoint/start.*.safetensors"),
    "journal": one("checkpoint/journal.jsonl"),
    "manifest": one("checkpoint/manifest.json"),
}


def test_a_sound_run_has_nothing_wrong_with_it(run: Path, cli: Callable[..., Outcome]) -> None:
    assert check_run(run) == []
    result = cli("check", run)
    assert result.code == 0
    assert "every file is what the run had written" in result.out


@pytest.mark.parametrize("what", FILES)
def test_a_flipped_bit_is_named_and_the_resume_changes_nothing(
    settings: Settings, run: Path, tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    victim = FILES[what](folder)
    flip(victim)
    assert [victim.name in sentence for sentence in check_run(folder)] == [True]
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}
    with pytest.raises(FedkfError, match=victim.name):
        fedkf.run(settings, rounds=3, algorithm="scaffold", out=folder, resume=True)
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}
    assert after == before


def test_a_model_that_was_changed_is_not_loaded(
    run: Path, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    flip(folder / "models" / "oca.safetensors")
    with pytest.raises(FedkfError, match=r"oca\.safetensors is damaged"):
        fedkf.load(folder)
    result = cli("check", folder)
    assert result.code == 1
    assert "oca.safetensors" in result.out
    assert "1 file of" in result.err


def test_a_file_of_another_run_is_noticed(settings: Settings, run: Path, tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "run"
    fedkf.run(settings, rounds=2, algorithm="scaffold", seed=5, out=other)
    shutil.copytree(run, folder)
    victim = FILES["server state"](folder)
    shutil.copyfile(FILES["server state"](other), victim)
    with pytest.raises(FedkfError, match=victim.name):
        fedkf.run(settings, rounds=3, algorithm="scaffold", out=folder, resume=True)


def shorten(name: str, lines: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(content[:lines]))

    return change


def cut(folder: Path) -> None:
    content = (folder / "split.npz").read_bytes()
    (folder / "split.npz").write_bytes(content[: len(content) // 2])


def turn(folder: Path) -> None:
    """A bit of the samples' numbers."""
    content = bytearray((folder / "split.npz").read_bytes())
    content[80] ^= 1
    (folder / "split.npz").write_bytes(bytes(content))


def head(flag: int, at: int) -> Callable[[Path], None]:
    """A bit in the archive's list of what it holds, after the entry's signature."""

    def change(folder: Path) -> None:
        content = bytearray((folder / "split.npz").read_bytes())
        content[content.index(b"PK\x01\x02") + at] ^= flag
        (folder / "split.npz").write_bytes(bytes(content))

    return change


def shape(folder: Path) -> None:
    """Arrays whose heads do not end, in an archive that is sound."""
    with zipfile.ZipFile(folder / "split.npz") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "split.npz", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content.replace(b"}", b" ", 1))


def move(folder: Path) -> None:
    """A split of the same samples in which a client has one more and the next one less."""
    with np.load(folder / "split.npz") as content:
        parts = {name: content[name].copy() for name in content.files}
    parts["train_offsets"][1] += 1
    np.savez_compressed(folder / "split.npz", **parts)


def better(name: str) -> Callable[[Path], object]:
    """AMP as somebody would have it."""

    def change(folder: Path) -> None:
        *before, last = (folder / name).read_text().splitlines()
        text = "\n".join([*before, last]) if name == "summary.json" else last
        changed = re.sub(r'("amp": )[0-9.e-]+', r"\g<1>0.99", text)
        assert changed != text
        kept = [] if name == "summary.json" else before
        (folder / name).write_text("\n".join([*kept, changed]) + "\n")

    return change


def bomb(folder: Path) -> None:
    """A third of a gigabyte of zeros in the place of a client's samples, in a small file."""
    with np.load(folder / "split.npz") as content:
        parts = {name: content[name].copy() for name in content.files}
    with zipfile.ZipFile(folder / "split.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            with archive.open(f"{name}.npy", "w") as file:
                count = 40 << 20 if name == "train" else len(part)
                about = {"descr": "<i8", "fortran_order": False, "shape": (count,)}
                np.lib.format.write_array_header_1_0(file, about)
                for _ in range(40 if name == "train" else 0):
                    file.write(bytes(8 << 20))
                if name != "train":
                    file.write(part.astype("<i8").tobytes())


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "rounds emptied": ("rounds.jsonl", shorten("rounds.jsonl", 0)),
    "rounds deleted": ("rounds.jsonl", lambda folder: (folder / "rounds.jsonl").unlink()),
    "last round lost": ("rounds.jsonl", shorten("rounds.jsonl", 1)),
    "split emptied": ("split.npz", lambda folder: (folder / "split.npz").write_bytes(b"")),
    "split of texts": ("split.npz", lambda folder: (folder / "split.npz").write_text("no split")),
    "split cut": ("split.npz", cut),
    "split flipped": ("split.npz", turn),
    "split of another version": ("split.npz", head(64, at=6)),
    "split encrypted": ("split.npz", head(1, at=8)),
    "split of no array": ("split.npz", shape),
    "split of other sizes": ("split.npz", move),
    "an AMP of one's own": ("rounds.jsonl", better("rounds.jsonl")),
    "a headline of one's own": ("summary.json", better("summary.json")),
    "partition deleted": ("partition.json", lambda folder: (folder / "partition.json").unlink()),
    "ledger deleted": ("ledger.json", lambda folder: (folder / "ledger.json").unlink()),
    "status deleted": ("status.json", lambda folder: (folder / "status.json").unlink()),
    "summary deleted": ("summary.json", lambda folder: (folder / "summary.json").unlink()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_missing_or_does_not_fit_is_named(run: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    name, change = CHANGES[what]
    change(folder)
    (sentence,) = check_run(folder)
    assert f"{folder / name} is" in sentence
    assert "pickle" not in sentence


@pytest.mark.parametrize(("lines", "sound"), [(1, True), (0, False)])
def test_a_crash_may_have_cost_the_line_of_the_checkpoints_round(
    run: Path, tmp_path: Path, lines: int, sound: bool
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "summary.json").unlink()
    status = (folder / "status.json").read_text()
    (folder / "status.json").write_text(status.replace('"finished"', '"running"'))
    shorten("rounds.jsonl", lines)(folder)
    assert (check_run(folder) == []) is sound


def test_a_finished_run_that_goes_on_has_no_summary_yet(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "summary.json").unlink()
    config = (folder / "config.yaml").read_text()
    assert config.count("  rounds: 2 ") == 1
    (folder / "config.yaml").write_text(config.replace("  rounds: 2 ", "  rounds: 3 "))
    assert check_run(folder) == []


def test_what_is_no_run_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        check_run(tmp_path)


def test_a_split_that_unpacks_to_far_more_than_it_has_is_not_unpacked(
    run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    bomb(tmp_path / "run")
    tracemalloc.start()
    (sentence,) = check_run(tmp_path / "run")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "split.npz is damaged: it holds no division of samples" in sentence
    assert most < 64 << 20
