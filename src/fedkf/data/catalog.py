"""Public data sets by name: which files they are, where to look for them, how they are read.

Only the training split is used, as in the paper. A data set is decoded once, into arrays in the
cache that are mapped into memory, so that a run starts at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import FedkfError, UserError
from fedkf.data.archives import READING, Bytes, File, cifar_binary, cifar_python, idx
from fedkf.data.folder import cache_folder, digest
from fedkf.data.sources import Say, Source, places

VERSION = 1

Decoded = tuple[Bytes, NDArray[np.int64]]
"""Images N×C×H×W and labels from 0."""


@dataclass(frozen=True)
class Download:
    """A file to fetch, and the MD5 sum under which its publishers list it."""

    name: str
    url: str
    md5: str


@dataclass(frozen=True)
class Form:
    """One way in which a data set is laid out: its files, perhaps in an archive, and a reader."""

    files: Sequence[str]
    read: Callable[[Sequence[bytes]], Decoded]
    archive: str | None = None
    inside: str = ""


@dataclass(frozen=True)
class Dataset:
    """A data set that `data.source` may name."""

    name: str
    about: str
    class_names: Sequence[str]
    forms: Sequence[Form]
    folders: Sequence[str] = ("",)
    downloads: Sequence[Download] = ()
    wanted: str = ""

    def missing(self) -> str:
        """Where to put which file."""
        names = self.wanted or " and ".join(d.name for d in self.downloads)
        get = f"`fedkf data get {self.name}` downloads it, or put" if self.downloads else "put"
        return (
            f"{get} {names} into {data_folder() / self.name}, or into the folder {self.name} "
            "of one that --data-dir or FEDKF_DATA names"
        )


def data_folder() -> Path:
    """Where downloads go: `data` in the cache."""
    return cache_folder() / "data"


def folders(dataset: Dataset, path: str | None = None) -> list[Path]:
    """Where to look: `data.path`, --data-dir and FEDKF_DATA, the cache, then usual places.

    Torchvision has no place of its own; `data` here or at home is where its users put things.
    """
    if path is not None:
        roots, direct = [Path(path).expanduser()], [Path(path).expanduser()]
    else:
        usual = [Path("data"), Path.home() / "data", Path.home() / ".cache" / "torchvision"]
        roots, direct = [*places(), data_folder(), *usual, Path("/usr/share/datasets")], []
    return direct + [root / name for root in roots for name in (dataset.name, *dataset.folders)]


def find(dataset: Dataset, path: str | None = None) -> tuple[Form, list[File]] | None:
    """The first folder that holds all files of one of the data set's forms."""
    for folder in folders(dataset, path):
        for form in dataset.forms:
            if files := _files(form, folder):
                return form, files
    return None


def _files(form: Form, folder: Path) -> list[File]:
    if form.archive is not None:
        path = folder / form.archive
        return [File(path, form.inside + name) for name in form.files] if path.is_file() else []
    found = []
    for name in form.files:
        candidates = (folder / form.inside / name, folder / form.inside / f"{name}.gz")
        file = next((File(c) for c in candidates if c.is_file()), None)
        if file is None:
            return []
        found.append(file)
    return found


def load(
    dataset: Dataset, path: str | None = None, say: Say = lambda text: None
) -> Source:
    """The data set's training images and labels, from the cache if they were decoded before."""
    found = find(dataset, path)
    if found is None:
        where = f" in {path}" if path else ""
        raise UserError(f"data.source: no {dataset.name} here{where}; {dataset.missing()}")
    form, files = found
    paths = sorted({file.path for file in files})
    stats = [(str(p.resolve()), (s := p.stat()).st_size, s.st_mtime_ns) for p in paths]
    folder = cache_folder() / f"{dataset.name}-{digest([VERSION, stats])}"
    with contextlib.suppress(OSError, ValueError, EOFError):  # not there or damaged: decode
        return _source(dataset, folder)
    images, labels = decode(dataset, form, files)
    try:
        _write(folder, images, labels)
    except OSError as error:
        raise FedkfError(
            f"cannot write the cache {cache_folder()}: {error.strerror or error}"
        ) from error
    say(f"decoded {len(labels)} images of {dataset.name} from {paths[0]}")
    return _source(dataset, folder)


def _source(dataset: Dataset, folder: Path) -> Source:
    images = np.load(folder / "images.npy", mmap_mode="r")
    return Source(images, np.load(folder / "labels.npy"), list(dataset.class_names))


def decode(dataset: Dataset, form: Form, files: Sequence[File]) -> Decoded:
    """Read and check the files; a sentence says which one is at fault."""
    contents = []
    with _open_once(files) as opened:
        for file in opened:
            with _explaining(file.path):
                contents.append(file.read())
    where = ", ".join(sorted({str(file.path) for file in files}))
    with _explaining(where):
        images, labels = form.read(contents)
        if len(images) != len(labels) or not len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels")
        if int(labels.min()) < 0 or int(labels.max()) >= len(dataset.class_names):
            raise ValueError(f"labels go from {labels.min()} to {labels.max()}")
    return images, labels


@contextlib.contextmanager
def _open_once(files: Sequence[File]) -> Iterator[Sequence[File]]:
    """A compressed tar is unpacked once, not once for each of its members."""
    path = files[0].path
    if files[0].member is None or path.suffix == ".zip" or len(files) == 1:
        yield files
        return
    with tempfile.TemporaryDirectory(prefix="fedkf-") as temporary, _explaining(path):
        wanted = {file.member for file in files}
        with tarfile.open(path) as archive:
            members = [m for m in archive if m.name in wanted and m.isfile()]
            archive.extractall(temporary, members, filter="data")
        yield [File(Path(temporary) / str(file.member)) for file in files]


@contextlib.contextmanager
def _explaining(path: Path | str) -> Iterator[None]:
    try:
        yield
    except READING as error:
        reason = str(error) or type(error).__name__
        raise UserError(
            f"data.source: {path} is damaged or incomplete ({reason}); remove it and get it again"
        ) from None


def _write(folder: Path, images: Bytes, labels: NDArray[np.int64]) -> None:
    """All of it or nothing: written beside, then renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".decoding-"))
    try:
        np.save(beside / "images.npy", np.ascontiguousarray(images))
        np.save(beside / "labels.npy", labels)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(FileExistsError, OSError):  # another process was faster
            os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


# -- the data sets ---------------------------------------------------------------------------------


def _read_idx(contents: Sequence[bytes]) -> Decoded:
    images, labels = (idx(content) for content in contents)
    if images.ndim != 3 or labels.ndim != 1:
        raise ValueError("the files do not hold images and labels")
    return images[:, None], labels.astype(np.int64)


def _read_emnist(contents: Sequence[bytes]) -> Decoded:
    """Letters are published mirrored along the diagonal, with labels from 1."""
    images, labels = _read_idx(contents)
    return images.transpose(0, 1, 3, 2), labels - 1


def _read_binary(label_bytes: int) -> Callable[[Sequence[bytes]], Decoded]:
    return lambda contents: _joined([cifar_binary(c, label_bytes) for c in contents])


def _read_python(labels: str) -> Callable[[Sequence[bytes]], Decoded]:
    return lambda contents: _joined([cifar_python(c, labels) for c in contents])


def _joined(parts: Sequence[tuple[Bytes, Bytes]]) -> Decoded:
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels).astype(np.int64)


def _idx_forms(prefix: str, read: Callable[[Sequence[bytes]], Decoded]) -> list[Form]:
    names = [f"{prefix}train-images-idx3-ubyte", f"{prefix}train-labels-idx1-ubyte"]
    return [Form(names, read)]


def _cifar_forms(number: int, batches: Sequence[str], label_bytes: int, labels: str) -> list[Form]:
    forms = []
    kinds = (
        ("binary", "batches-bin" if number == 10 else "binary", ".bin", _read_binary(label_bytes)),
        ("python", "batches-py" if number == 10 else "python", "", _read_python(labels)),
    )
    for kind, inside, ending, read in kinds:
        files, folder = [batch + ending for batch in batches], f"cifar-{number}-{inside}/"
        forms.append(Form(files, read, inside=folder))
        forms.append(Form(files, read, f"cifar-{number}-{kind}.tar.gz", folder))
    return forms


def _read_npz(contents: Sequence[bytes]) -> Decoded:
    with np.load(io.BytesIO(contents[0]), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"].astype(np.int64)
    if images.ndim != 3 or images.dtype != np.uint8:
        raise ValueError(f"its images are {images.dtype} of shape {images.shape}")
    return images[:, None], labels


_LETTERS = [chr(ord("a") + k) for k in range(26)]
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

_EMNIST_NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "emnist",
            "EMNIST letters: 124,800 handwritten letters a to z, 28×28",
            _LETTERS,
            [
                *_idx_forms("emnist-letters-", _read_emnist),
                Form(
                    [f"emnist-letters-{name}" for name in _EMNIST_NAMES],
                    _read_emnist,
                    "gzip.zip",
                    "gzip/",
                ),
            ],
            ("", "EMNIST/raw", "gzip"),
            [
                Download(
                    "gzip.zip",
                    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                    "58c8d27c78d21e728a6bc7b3cc06412e",
                )
            ],
        ),
        Dataset(
            "letters",
            "handwritten letters a to z, 28×28, from letters.npz",
            _LETTERS,
            [Form(["letters.npz"], _read_npz)],
            wanted="letters.npz (arrays images and labels)",
        ),
        Dataset(
            "cifar10",
            "CIFAR-10: 50,000 colour images of 10 classes, 32×32",
            "airplane automobile bird cat deer dog frog horse ship truck".split(),
            _cifar_forms(10, [f"data_batch_{k}" for k in range(1, 6)], 1, "labels"),
            downloads=[
                Download(
                    "cifar-10-binary.tar.gz",
                    f"{_CIFAR}/cifar-10-binary.tar.gz",
                    "c32a1d4ab5d03f1284b67883e8d87530",
                )
            ],
        ),
        Dataset(
            "cifar100",
            "CIFAR-100: 50,000 colour images of 100 classes, 32×32",
            (
                "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy "
                "bridge bus butterfly camel can castle caterpillar cattle chair chimpanzee clock "
                "cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish "
                "forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion "
                "lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange "
                "orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine "
                "possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
                "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone "
                "television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf "
                "woman worm"
            ).split(),
            _cifar_forms(100, ["train"], 2, "fine_labels"),
            downloads=[
                Download(
                    "cifar-100-binary.tar.gz",
                    f"{_CIFAR}/cifar-100-binary.tar.gz",
                    "03b5dce01913d631647c71ecec9e9cb8",
                )
            ],
        ),
        Dataset(
            "mnist",
            "MNIST: 60,000 handwritten digits, 28×28",
            [str(k) for k in range(10)],
            _idx_forms("", _read_idx),
            ("MNIST/raw",),
            [
                Download(name, f"{_MNIST}/{name}", md5)
                for name, md5 in (
                    ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                )
            ],
        ),
        Dataset(
            "fashion-mnist",
            "Fashion-MNIST: 60,000 pieces of clothing, 28×28",
            [
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ],
            _idx_forms("", _read_idx),
            ("FashionMNIST/raw",),
            [
                Download(name, f"{_FASHION}/{name}", md5)
                for name, md5 in (
                    ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                    ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                )
            ],
        ),
    )
}
