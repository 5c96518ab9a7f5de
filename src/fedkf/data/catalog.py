"""How a public data set is found, decoded once and mapped into memory.

Only the training split is used, as in the paper. A data set is decoded once, into arrays in the
cache that are mapped into memory, so that a run starts at once.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import write_atomically
from fedkf.data.archives import READING, Bytes, File, open_tar
from fedkf.data.files import cache_folder, digest, places, tidy
from fedkf.data.source import Say, Source

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


def load(dataset: Dataset, path: str | None = None, say: Say = lambda text: None) -> Source:
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
    labels = np.load(folder / "labels.npy")
    images = np.load(folder / "images.npy", mmap_mode="r")
    return Source(images, labels, list(dataset.class_names))


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
        with open_tar(path) as archive:
            for member in archive:
                if member.name in wanted and member.isfile():
                    archive.extract(member, temporary, filter="data")
        yield [File(Path(temporary) / str(file.member)) for file in files]


@contextlib.contextmanager
def _explaining(path: Path | str) -> Iterator[None]:
    try:
        yield
    except READING as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"data.source: {path} is damaged or incomplete ({reason}); remove it and get it again"
        ) from None


def _write(folder: Path, images: Bytes, labels: NDArray[np.int64]) -> None:
    """Labels come last: where they are, all images are on the disk."""
    tidy(cache_folder())
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("images", np.ascontiguousarray(images)), ("labels", labels)):
        buffer = io.BytesIO()
        np.save(buffer, array)
        write_atomically(folder / f"{name}.npy", buffer.getvalue())
