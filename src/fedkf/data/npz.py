"""Samples from NumPy's .npz files."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.annotations import Annotations, annotated, labelled
from fedkf.data.arrays import read_npz
from fedkf.data.files import find
from fedkf.data.source import Say, Source, check
from fedkf.data.targets import Targets


def npz(
    path: str,
    targets: Targets = Targets(),  # noqa: B008
    asked: Annotations = Annotations(),  # noqa: B008
    say: Say = lambda text: None,
) -> Source:
    """A file of NumPy's with `images` and `labels`, and perhaps more that says who holds what.

    Images are N×H×W or N×H×W×C, uint8 or float in [0, 1]; N×D are vectors of any floats. Labels
    are whole numbers, or names; for other tasks than classes as data/targets.py says.
    """
    file = find(path)
    where = f"data.path: {file}"
    read = read_npz(file, "images", *asked.labels, also=asked.others)
    arrays = labelled(read, "images", where, asked, say)
    images = channels_first(arrays["images"], where)
    source = check(where, images, asked.targets(arrays, where), asked.named(targets, arrays))
    return annotated(source, arrays, where, asked)


def npz_inputs(path: str) -> NDArray[Any]:
    """The images of an .npz file alone, which needs no labels."""
    file = find(path)
    return channels_first(read_npz(file, "images")["images"], f"data.path: {file}")


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
