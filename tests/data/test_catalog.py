"""Public data sets: every layout in which they are published, missing and damaged files."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flushes import flushes
from kills import killed_at_every_step
from published import (
    Bytes,
    cifar_batches,
    cifar_pickles,
    emnist_zip,
    idx_files,
    images_and_labels,
    tar_gz,
    write,
)

from fedkf.core.errors import UserError
from fedkf.data import catalog, sources
from fedkf.data.archives import plain
from fedkf.data.public import DATASETS
from fedkf.data.source import Source
from fedkf.runs.config import presets, read, resolve
from fedkf.runs.setup import load_source

Cli = Callable[..., tuple[int, str, str]]
LETTERS = images_and_labels(260, 26, 28, 28)
DIGITS = images_and_labels(40, 10, 28, 28)
TEN = images_and_labels(50, 10, 3, 32, 32)
HUNDRED = images_and_labels(200, 100, 3, 32, 32)


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine is found: its own cache, home and current folder."""
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FEDKF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def same(source: Source, images: Bytes, labels: Bytes) -> None:
    wanted = images if images.ndim == 4 else images[:, None]
    np.testing.assert_array_equal(source.inputs, wanted)
    np.testing.assert_array_equal(source.labels, labels)


@pytest.mark.parametrize("layout", ["zip", "gz", "torchvision", "unpacked"])
def test_emnist_letters_stand_upright(tmp_path: Path, layout: str) -> None:
    images, labels = LETTERS
    data = tmp_path / "data"
    data.mkdir()
    files = idx_files("emnist-letters-", images.transpose(0, 2, 1).copy(), labels + 1)
    if layout == "zip":
        emnist_zip(data / "gzip.zip", images, labels)
    else:
        folder = {"torchvision": "EMNIST/raw"}.get(layout, "")
        write(data / folder, files, zipped=layout == "gz")
    source = sources.load("emnist", None)
    same(source, images, labels)
    assert source.class_names == list("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize("archived", [True, False])
@pytest.mark.parametrize("kind", ["binary", "python"])
@pytest.mark.parametrize("number", [10, 100])
def test_cifar_in_all_four_layouts(
    tmp_path: Path, number: int, kind: str, archived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = TEN if number == 10 else HUNDRED
    make = cifar_batches if kind == "binary" else cifar_pickles
    files = make(images, labels, number == 100)
    place = tmp_path / "elsewhere"
    place.mkdir()
    if archived:
        tar_gz(place / f"cifar-{number}-{kind}.tar.gz", files)
    else:
        write(place, files)
    monkeypatch.setenv("FEDKF_DATA", os.pathsep.join([str(tmp_path / "nothing"), str(place)]))
    source = sources.load(f"cifar{number}", None)
    same(source, images, labels)
    assert len(source.class_names) == number


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "MNIST/raw"),
        ("mnist", "mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
    ],
)
def test_mnist_and_fashion_mnist_share_file_names_but_not_folders(
    tmp_path: Path, name: str, folder: str
) -> None:
    write(tmp_path / "data" / folder, idx_files("", *DIGITS), zipped=True)
    same(sources.load(name, None), *DIGITS)
    other = {"mnist": "fashion-mnist", "fashion-mnist": "mnist"}[name]
    with pytest.raises(UserError, match=f"no {other} here"):
        sources.load(other, None)
    same(sources.load(other, str(tmp_path / "data" / folder)), *DIGITS)  # the user says so


def test_letters_come_from_one_file_480_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = images_and_labels(26 * 500, 26, 28, 28)
    np.savez_compressed(tmp_path / "letters.npz", images=images, labels=labels.astype(np.int64))
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path))
    source = load_source(resolve(read("letters")[0]))
    assert np.bincount(source.labels).tolist() == [480] * 26
    again = load_source(resolve(read("letters")[0]))
    np.testing.assert_array_equal(source.inputs, again.inputs)


def test_the_emnist_preset_takes_ten_percent_of_each_class(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    emnist_zip(tmp_path / "data" / "gzip.zip", *LETTERS)
    source = load_source(resolve(read("emnist")[0]))
    assert np.bincount(source.labels).tolist() == [1] * 26


def test_it_is_decoded_once_and_mapped(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    archive = tmp_path / "data" / "gzip.zip"
    emnist_zip(archive, *LETTERS)
    said: list[str] = []
    sources.load("emnist", None, say=said.append)
    source = sources.load("emnist", None, say=said.append)
    assert len(said) == 1
    assert isinstance(source.inputs, np.memmap)
    emnist_zip(archive, LETTERS[0][:52], LETTERS[1][:52])  # another file: decoded again
    assert len(sources.load("emnist", None, say=said.append).labels) == 52
    assert len(said) == 2


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    emnist_zip(tmp_path / "data" / "gzip.zip", *LETTERS)
    sources.load("emnist", None)
    for array in (tmp_path / "cache").glob("*/*.npy"):
        array.write_bytes(b"damaged")
    same(sources.load("emnist", None), *LETTERS)


def test_killed_while_it_was_decoded_a_data_set_is_whole_the_next_time(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    emnist_zip(tmp_path / "data" / "gzip.zip", *LETTERS)
    for _ in killed_at_every_step(lambda: sources.load("emnist", None)):
        same(sources.load("emnist", None), *LETTERS)
        shutil.rmtree(tmp_path / "cache")


def test_decoded_arrays_are_on_the_disk_before_they_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    emnist_zip(tmp_path / "data" / "gzip.zip", *LETTERS)
    flushed = flushes(monkeypatch)
    sources.load("emnist", None)
    (folder,) = (tmp_path / "cache").iterdir()
    names = [folder / f".{name}.npy.{os.getpid()}.tmp" for name in ("images", "labels")]
    assert flushed == [names[0], folder, names[1], folder]


def test_what_killed_processes_left_in_the_cache_is_removed_after_a_day(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    emnist_zip(tmp_path / "data" / "gzip.zip", *LETTERS)
    old, new = tmp_path / "cache" / ".decoding-old", tmp_path / "cache" / ".decoding-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    (tmp_path / "cache" / ".a.npy.7.tmp").write_bytes(b"half")
    for stray in (old, tmp_path / "cache" / ".a.npy.7.tmp"):
        os.utime(stray, (0, 0))
    sources.load("emnist", None)
    assert [path.name for path in (tmp_path / "cache").glob(".*")] == [new.name]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("emnist", "gzip.zip"),
        ("cifar10", "cifar-10-binary.tar.gz"),
        ("cifar100", "cifar-100-python.tar.gz"),
        ("mnist", "MNIST/raw/train-images-idx3-ubyte.gz"),
    ],
)
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_truncated_archive_is_named_in_a_sentence(
    tmp_path: Path, cli: Cli, name: str, path: str, keep: float
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    emnist_zip(data / "gzip.zip", *LETTERS)
    tar_gz(data / "cifar-10-binary.tar.gz", cifar_batches(*TEN, False))
    tar_gz(data / "cifar-100-python.tar.gz", cifar_pickles(*HUNDRED, True))
    write(data / "MNIST/raw", idx_files("", *DIGITS), zipped=True)
    whole = (data / path).read_bytes()
    (data / path).write_bytes(whole[: int(keep * len(whole))])
    code, _, err = cli("partition", "--set", f"data.source={name}", "--out", tmp_path / "out")
    assert code == 2
    assert err.count("\n") == 1
    assert path in err
    assert "damaged or incomplete" in err


@pytest.mark.parametrize("name", ["emnist", "cifar10", "cifar100", "letters"])
def test_missing_data_is_a_sentence_that_says_what_to_put_where(cli: Cli, name: str) -> None:
    code, _, err = cli("run", name)
    assert code == 2
    assert err.count("\n") == 1
    wanted = {"emnist": "gzip.zip", "letters": "letters.npz", "cifar10": "cifar-10-binary.tar.gz"}
    assert wanted.get(name, "cifar-100-binary.tar.gz") in err
    assert str(catalog.data_folder()) in err


def test_the_data_dir_comes_first(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, count in (("data", 260), ("mine", 520)):
        (tmp_path / folder).mkdir()
        emnist_zip(tmp_path / folder / "gzip.zip", *images_and_labels(count, 26, 28, 28))
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path / "data"))
    settings = ("--set", "data.limit=null", "--set", "data.clients=2", "--json")
    where = ("--data-dir", tmp_path / "mine", "--out", tmp_path / "out")
    code, text, _ = cli("partition", "emnist", *settings, *where)
    assert code == 0
    assert sum(sum(c["classes"]) for c in json.loads(text)["clients"]) == 520
    assert cli("run", "emnist", "--data-dir", tmp_path / "no")[0] == 2


def test_no_object_is_made_from_a_pickle() -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("run",)

    with pytest.raises(ValueError, match="which no CIFAR batch does"):
        plain(pickle.dumps({"data": Evil()}, protocol=2))


def test_batches_pickled_by_python_3_are_read_too() -> None:
    batch = {b"labels": [1, 2], b"data": np.arange(6144, dtype=np.uint8).reshape(2, 3072)}
    read_back = plain(pickle.dumps(batch, protocol=2))
    np.testing.assert_array_equal(read_back["data"], batch[b"data"])
    assert read_back["labels"] == [1, 2]


PAPER = {
    "emnist": ("lenet5", 0.01, 100, False, 0.001, 0.001),
    "letters": ("lenet5", 0.01, 100, False, 0.001, 0.001),
    "cifar10": ("resnet8", 0.1, 1000, True, 0.001, 0.2),
    "cifar100": ("resnet8", 0.1, 1000, True, 0.0001, 0.2),
}


@pytest.mark.parametrize("name", PAPER)
def test_presets_hold_the_papers_settings(name: str) -> None:
    model, lr, noise, adversarial, mu, gamma = PAPER[name]
    content, _ = read(name)
    config = resolve(content)
    f = config.federation
    assert (f.rounds, f.fraction, f.local_epochs, f.batch_size, f.lr) == (100, 0.2, 10, 64, lr)
    assert (f.momentum, f.weight_decay, f.steps) == (0, 0, "equal")
    assert (config.data.clients, config.data.partition) == (20, "dirichlet-balanced")
    assert (config.model.name, config.fidelity, config.overall.scope) == (model, "released", "seen")
    assert (config.generator.noise, config.generator.lr) == (noise, 0.001)
    assert config.generator.name == "released"
    own = config.algorithm.model_dump()
    assert (own["gamma"], own["lambda1"], own["lambda2"]) == (1, 0.1, 0.1)
    assert own["adversarial"] is adversarial
    assert (own["first_round"], own["entropy"], own["activation"]) == ("plain", "scaled", "mean")
    assert content["algorithms"]["fedprox"] == {"mu": mu}
    assert content["algorithms"]["fedgkd"] == {"gamma": gamma}
    assert content["algorithms"]["qffl"] == {"q": 0.0001}
    prox = resolve(content, {"algorithm.name": "fedprox"})
    assert prox.algorithm.model_dump() == {"name": "fedprox", "mu": mu}
    assert name in presets()


def test_classes_of_data_sets_can_be_names_of_folders() -> None:
    for dataset in DATASETS.values():
        for name in dataset.class_names:
            assert name == Path(name).name, f"{dataset.name}: {name}"
            assert name.strip() == name
