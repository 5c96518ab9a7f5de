"""Where samples come from: data that ships with a dependency, and files of the user's."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError


@dataclass(frozen=True)
class Source:
    """Images N×H×W×C, uint8 or float in [0, 1], and their labels from 0."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    classes: int


def load(source: str, path: str | None) -> Source:
    """The samples of a source of the configuration."""
    if source == "digits":
        return digits()
    if path is None:
        raise UserError("data.path is missing: data.source npz needs the path of a .npz file")
    return npz(path)


def digits() -> Source:
    """1,797 handwritten digits, 8×8, that ship with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16.0).astype(np.float32)
    return Source(images[..., None], bunch.target.astype(np.int64), 10)


def npz(path: str) -> Source:
    """A file of NumPy's with `images` (N×H×W or N×H×W×C, uint8 or float) and `labels`."""
    file = find(path)
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            missing = [name for name in ("images", "labels") if name not in arrays]
            if missing:
                raise UserError(
                    f"data.path: {file} has no array {missing[0]!r} (it has "
                    f"{', '.join(sorted(arrays)) or 'none'}); it needs images and labels"
                )
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise UserError(f"data.path: {file} is not a readable .npz file ({error})") from None
    return check(str(file), images, labels)


def find(path: str) -> Path:
    """A path as given, or below the folder that FEDKF_DATA names."""
    tried = [Path(path).expanduser()]
    if folder := os.environ.get("FEDKF_DATA"):
        tried.append(Path(folder).expanduser() / path)
    for candidate in tried:
        if candidate.is_file():
            return candidate
    hint = "" if len(tried) > 1 else " (FEDKF_DATA may name a folder to look in)"
    raise UserError(f"data.path: no file {' or '.join(map(str, tried))}{hint}")


def check(where: str, images: NDArray[Any], labels: NDArray[Any]) -> Source:
    """Samples that can be trained on, or a sentence that says why not."""

    def wrong(reason: str) -> UserError:
        return UserError(f"data.path: {where}: {reason}")

    if images.ndim not in (3, 4):
        raise wrong(f"images has shape {images.shape}; it must be N×H×W or N×H×W×C")
    if labels.ndim != 1 or len(labels) != len(images):
        raise wrong(f"{len(images)} images but labels of shape {labels.shape}")
    if len(images) == 0:
        raise wrong("it holds no images")
    if not np.issubdtype(labels.dtype, np.integer):
        raise wrong(f"labels are {labels.dtype}; they must be whole numbers from 0")
    if labels.min() < 0:
        raise wrong(f"labels go down to {labels.min()}; they must be whole numbers from 0")
    if images.dtype == np.uint8:
        pass
    elif np.issubdtype(images.dtype, np.floating):
        if not np.isfinite(images).all():
            raise wrong("images hold NaN or infinite values")
        if images.min() < 0 or images.max() > 1:
            raise wrong(
                f"float images must lie in [0, 1], these go from {images.min():g} to "
                f"{images.max():g}"
            )
    else:
        raise wrong(f"images are {images.dtype}; they must be uint8, or float in [0, 1]")
    if images.ndim == 3:
        images = images[..., None]
    labels = labels.astype(np.int64)
    classes = int(labels.max()) + 1
    if classes < 2:
        raise wrong("all labels are 0; a classifier needs at least two classes")
    return Source(images, labels, classes)


def limit_per_class(source: Source, limit: int, random: np.random.Generator) -> Source:
    """At most `limit` samples of each class, drawn at random."""
    kept = [
        random.permutation(np.flatnonzero(source.labels == label))[:limit]
        for label in np.unique(source.labels)
    ]
    chosen = np.sort(np.concatenate(kept))
    return Source(source.images[chosen], source.labels[chosen], source.classes)
