"""Where samples come from: data that ships with a dependency, files and folders, Python objects."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest

Say = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """Samples N×C×H×W (images, uint8 or float in [0, 1]) or N×… (anything else, float).

    `owners` says which client holds which sample, where the source knows.
    """

    inputs: NDArray[Any]
    labels: NDArray[np.int64]
    class_names: list[str]
    owners: NDArray[np.int64] | None = None
    owner_names: Sequence[str] = ()

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def images(self) -> bool:
        return self.inputs.ndim == 4

    def take(self, chosen: NDArray[np.int64]) -> Source:
        owners = None if self.owners is None else self.owners[chosen]
        return replace(self, inputs=self.inputs[chosen], labels=self.labels[chosen], owners=owners)


PUBLIC = ("emnist", "letters", "cifar10", "cifar100", "mnist", "fashion-mnist")
KNOWN = ("digits", "npz", "folder", *PUBLIC)


def load(
    source: str,
    path: str | None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
    say: Say = lambda text: None,
    least_classes: int = 2,
) -> Source:
    """The samples of a source of the configuration; training needs two classes, testing one."""
    if source == "digits":
        if path is not None:
            raise UserError("data.path is set, but data.source is digits; set it to npz or folder")
        return named(digits(), class_names)
    if source == "npz":
        return npz(need_path(source, path), class_names, least_classes)
    if source == "folder":
        from fedkf.data.folder import folder

        return folder(need_path(source, path), class_names, image_size, say, least_classes)
    if source in PUBLIC:
        from fedkf.data.catalog import load as load_public
        from fedkf.data.public import DATASETS

        return named(load_public(DATASETS[source], path, say), class_names)
    if ":" in source:
        from fedkf.core.objects import import_object
        from fedkf.data.datasets import from_object

        return from_object(import_object(source, "data.source"), source, class_names)
    if source == "python":
        raise UserError(
            "data.source is 'python': this run's data was given to fedkf.run in a program; "
            "give it again there"
        )
    hint = nearest(source, KNOWN)
    raise UserError(f"data.source: no {source!r}; {hint} (or package.module:object)")


def need_path(source: str, path: str | None) -> str:
    if path is None:
        what = "a .npz file" if source == "npz" else "a folder"
        raise UserError(f"data.path is missing: data.source {source} needs the path of {what}")
    return path


def named(source: Source, class_names: Sequence[str] | None) -> Source:
    """The source with the configuration's names for its classes."""
    if class_names is None:
        return source
    if set(source.class_names) <= set(class_names):
        places = np.array([list(class_names).index(name) for name in source.class_names])
        return replace(source, labels=places[source.labels], class_names=list(class_names))
    if source.class_names != [str(k) for k in range(source.classes)]:
        missing = next(name for name in source.class_names if name not in class_names)
        raise UserError(f"class {missing!r} is not in data.class_names")
    if len(class_names) < source.classes:
        raise UserError(
            f"data.class_names has {len(class_names)} names but the labels go up to "
            f"{source.classes - 1}"
        )
    return replace(source, class_names=list(class_names))


def digits() -> Source:
    """1,797 handwritten digits, 8×8, that ship with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16.0).astype(np.float32)
    return Source(images[:, None], bunch.target.astype(np.int64), [str(k) for k in range(10)])


def npz(path: str, class_names: Sequence[str] | None = None, least_classes: int = 2) -> Source:
    """A file of NumPy's with `images` and `labels`, and perhaps `client` (who holds what).

    Images are N×H×W or N×H×W×C, uint8 or float in [0, 1]; N×D are vectors of any floats. Labels
    are whole numbers from 0, or names.
    """
    file = find(path)
    arrays = read_npz(file, "images", "labels")
    where, labels, client = f"data.path: {file}", arrays["labels"], arrays.get("client")
    images = channels_first(arrays["images"], where)
    source = check(where, images, labels, class_names, least_classes)
    if client is None:
        return source
    if client.shape != labels.shape:
        raise UserError(f"{where}: {len(labels)} labels but client has shape {client.shape}")
    names, owners = np.unique(client, return_inverse=True)
    return replace(source, owners=owners.astype(np.int64), owner_names=[str(n) for n in names])


def npz_inputs(path: str) -> NDArray[Any]:
    """The images of an .npz file alone, which needs no labels."""
    file = find(path)
    return channels_first(read_npz(file, "images")["images"], f"data.path: {file}")


def read_npz(file: Path, *needed: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file that are of use here, of which some must be there."""
    if not zipfile.is_zipfile(file):
        raise UserError(f"data.path: {file} is not a readable .npz file (numpy.savez writes them)")
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            missing = [name for name in needed if name not in arrays]
            if missing:
                raise UserError(
                    f"data.path: {file} has no array {missing[0]!r} (it has "
                    f"{', '.join(sorted(arrays)) or 'none'}); it needs {' and '.join(needed)}"
                )
            used = {*needed, "client"} & set(arrays)
            return {name: arrays[name] for name in sorted(used)}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise UserError(f"data.path: {file} is not a readable .npz file ({error})") from None


def channels_first(images: NDArray[Any], where: str) -> NDArray[Any]:
    """N×C×H×W from N×H×W or N×H×W×C; N×D as it is."""
    if images.ndim not in (2, 3, 4):
        raise UserError(
            f"{where}: images has shape {images.shape}; it must be N×H×W, N×H×W×C or N×D"
        )
    if 0 in images.shape[1:]:
        raise UserError(f"{where}: images has shape {images.shape}, so they are empty")
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3, 4):
        raise UserError(
            f"{where}: images has shape {images.shape}, which looks like N×C×H×W; "
            "channels go last: images.transpose(0, 2, 3, 1)"
        )
    if images.ndim == 3:
        images = images[..., None]
    return images.transpose(0, 3, 1, 2) if images.ndim == 4 else images


def places() -> list[Path]:
    """The folders that --data-dir and FEDKF_DATA name, which may be several."""
    given = os.environ.get("FEDKF_DATA", "").split(os.pathsep)
    return [Path(place).expanduser() for place in given if place]


def find(path: str, folder: bool = False) -> Path:
    """A path as given, or below a folder that FEDKF_DATA names."""
    tried = [Path(path).expanduser(), *(place / path for place in places())]
    for candidate in tried:
        if candidate.is_dir() if folder else candidate.is_file():
            return candidate
    what = "folder" if folder else "file"
    hint = "" if len(tried) > 1 else " (FEDKF_DATA may name a folder to look in)"
    raise UserError(f"data.path: no {what} {' or '.join(map(str, tried))}{hint}")


def check(
    where: str,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    class_names: Sequence[str] | None = None,
    least_classes: int = 2,
) -> Source:
    """Samples that can be trained on, or a sentence that says why not."""

    def wrong(reason: str) -> UserError:
        return UserError(f"{where}: {reason}")

    if labels.ndim != 1 or len(labels) != len(inputs):
        raise wrong(f"{len(inputs)} images but labels of shape {labels.shape}")
    if len(inputs) == 0:
        raise wrong("it holds no images")
    numbers, names = number_labels(labels, class_names, wrong)
    if min(len(names), len(np.unique(numbers))) < least_classes:
        raise wrong("all samples are of one class; a classifier needs at least two")
    return Source(check_inputs(inputs, wrong), numbers, names)


def check_inputs(inputs: NDArray[Any], wrong: Callable[[str], UserError]) -> NDArray[Any]:
    """Inputs that a model can take: images of bytes or in [0, 1], or any finite floats."""
    if np.issubdtype(inputs.dtype, np.floating):
        if not np.isfinite(inputs).all():
            raise wrong("images hold NaN or infinite values")
        if inputs.ndim == 4 and (inputs.min() < 0 or inputs.max() > 1):
            raise wrong(
                f"float images must lie in [0, 1], these go from {inputs.min():g} to "
                f"{inputs.max():g}"
            )
    elif inputs.ndim != 4 and np.issubdtype(inputs.dtype, np.integer):
        inputs = inputs.astype(np.float32)
    elif inputs.dtype != np.uint8:
        raise wrong(f"images are {inputs.dtype}; they must be uint8, or float in [0, 1]")
    return inputs


def number_labels(
    labels: NDArray[Any], class_names: Sequence[str] | None, wrong: Callable[[str], UserError]
) -> tuple[NDArray[np.int64], list[str]]:
    """Labels as numbers from 0 and the classes' names in one fixed order."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind == "U":
        found = [str(name) for name in np.unique(labels)]
        names = list(class_names) if class_names is not None else found
        if unknown := [name for name in found if name not in names]:
            raise wrong(f"label {unknown[0]!r} is not in data.class_names")
        numbers = np.searchsorted(found, labels.astype(str))
        places = np.array([names.index(name) for name in found], dtype=np.int64)
        numbers = places[numbers]
    else:
        if not np.issubdtype(labels.dtype, np.integer):
            raise wrong(f"labels are {labels.dtype}; they must be whole numbers from 0, or names")
        if labels.min() < 0:
            raise wrong(f"labels go down to {labels.min()}; they must be whole numbers from 0")
        numbers = labels.astype(np.int64)
        highest = int(numbers.max())
        distinct = len(np.unique(numbers))
        if class_names is None and highest >= 2 * distinct + 2:
            raise wrong(
                f"labels go up to {highest} but only {distinct} different ones occur; number the "
                "classes from 0, or name them all in data.class_names"
            )
        names = list(class_names or [str(k) for k in range(highest + 1)])
        if highest >= len(names):
            raise wrong(f"data.class_names has {len(names)} names but a label is {highest}")
    return numbers, names


def limit_per_class(source: Source, limit: float, random: np.random.Generator) -> Source:
    """At most `limit` samples of each class, or that share of them, drawn at random."""
    kept = []
    for label in np.unique(source.labels):
        order = random.permutation(np.flatnonzero(source.labels == label))
        count = int(limit) if limit >= 1 else max(1, round(limit * len(order)))
        kept.append(order[:count])
    return source.take(np.sort(np.concatenate(kept)))
