"""Unlabelled data on the server that stands in for the clients': a share set aside, or a source.

Labels are never read: a file may come without them, and a Dataset's are dropped on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.objects import import_object
from fedkf.data.datasets import as_array
from fedkf.data.digits import digits
from fedkf.data.federated import as_tensor, resize
from fedkf.data.files import find
from fedkf.data.folder import decoded, image_files
from fedkf.data.npz import npz_inputs
from fedkf.data.scaling import filled, moments, scale
from fedkf.data.source import Say, Source, check_inputs

WAYS = (
    "a share of the data to set aside (such as 0.1), digits, an .npz file with images, a folder of "
    "images or package.module:object"
)


def set_aside(
    source: Source, share: float, random: np.random.Generator
) -> tuple[Source, NDArray[Any]]:
    """The source without a share of its samples, and those samples' inputs.

    Whole units are set aside where it is known whose samples are whose: nobody that a client tests
    has samples on the server.
    """
    if source.owners is not None:
        raise UserError(
            f"data.proxy is {share}, but every sample belongs to a site and none can be set "
            "aside for the server; name other data"
        )
    if source.units is None:
        order = random.permutation(len(source.labels))
    else:
        order = by_units(source.units, random)
    count = max(2, round(share * len(order)))
    if source.units is not None:
        count = at_an_end(source.units[order], count)
    if len(order) - count < 2:
        raise UserError(f"data.proxy is {share}, which leaves nothing of {len(order)} samples")
    return source.take(np.sort(order[count:])), source.inputs[np.sort(order[:count])]


def by_units(units: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """All samples, one unit after the other, these in random order."""
    names, inverse = np.unique(units, return_inverse=True)
    return np.argsort(random.permutation(len(names))[inverse], kind="stable")


def at_an_end(units: NDArray[np.int64], count: int) -> int:
    """The number of samples nearest to `count` after which a unit ends, and not the last one."""
    ends = np.flatnonzero(units[1:] != units[:-1]) + 1
    fitting = ends[ends >= 2]
    return int(fitting[np.abs(fitting - count).argmin()]) if len(fitting) else len(units)


def load(name: str, own: tuple[str, str | None], shape: tuple[int, ...], say: Say) -> Any:
    """The inputs of a source by name; `own` is the clients' source and path."""
    try:
        if name == "digits":
            if own[0] == "digits":
                raise UserError(
                    "data.proxy is digits, which the clients hold; set a share of them aside, "
                    "such as 0.1"
                )
            return digits().inputs
        if ":" in name:
            return from_object(import_object(name, "data.proxy"), name)
        if name == own[1]:
            raise UserError("data.proxy is data.path: the clients' own data cannot stand in for it")
        if name.endswith(".npz"):
            return npz_inputs(name)
        root = find(name, folder=True)
        size = shape[1] if len(shape) == 3 and shape[1] == shape[2] else None
        return decoded(root, image_files(root, say), size, say)[0].transpose(0, 3, 1, 2)
    except UserError as error:
        text = str(error).replace("data.path", "data.proxy")
        missing = not any(c in name for c in "/.:") and not Path(name).exists() and name != "digits"
        raise UserError(f"{text}; it may be {WAYS}" if missing else text) from None


def from_object(given: Any, where: str = "proxy") -> NDArray[Any]:
    """The inputs of an array, a Dataset (its labels are dropped), or a function returning one."""
    if callable(given) and not hasattr(given, "__getitem__"):
        try:
            given = given()
        except Exception as error:
            raise UserError(f"{where} raised {type(error).__name__}: {error}") from error
    if isinstance(given, np.ndarray | torch.Tensor):
        return as_array(given, where)
    try:
        items = [given[index] for index in range(len(given))]
    except Exception as error:
        raise UserError(
            f"{where} is neither an array nor a Dataset ({type(error).__name__}: {error})"
        ) from error
    inputs = [as_array(i[0] if isinstance(i, tuple | list) else i, where) for i in items]
    if len({x.shape for x in inputs}) != 1:
        raise UserError(f"{where} holds no samples, or samples of different shapes")
    return np.stack(inputs)


def whole(inputs: NDArray[Any], mean: Sequence[float] | None) -> NDArray[Any]:
    """Measured inputs with a mean in the place of missing ones: the given one, or their own."""
    if inputs.dtype.kind != "f" or not np.isnan(inputs).any():
        return inputs
    own = mean or scale(moments(inputs, least=1))[0]
    return filled(torch.from_numpy(inputs.astype(np.float32)), own).numpy()


def fit(inputs: NDArray[Any], shape: tuple[int, ...], where: str) -> torch.Tensor:
    """Inputs as the clients have them, before normalisation: floats of the same shape."""
    inputs = check_inputs(inputs, lambda reason: UserError(f"{where}: {reason}"))
    x = as_tensor(inputs)
    images = x.ndim == 4 and len(shape) == 3
    if images and x.shape[1] != shape[0]:
        if 1 not in (x.shape[1], shape[0]):
            raise UserError(
                f"{where}: images have {x.shape[1]} channels and the clients' {shape[0]}"
            )
        x = x.mean(1, keepdim=True).repeat(1, shape[0], 1, 1)
    if images:
        x = resize(x, tuple(shape[1:])).clamp(0, 1)
    if tuple(x.shape[1:]) != shape:
        raise UserError(f"{where}: inputs of shape {list(x.shape[1:])}, not {list(shape)}")
    if len(x) < 2:
        raise UserError(f"{where}: {len(x)} samples; at least two are needed")
    return x


def digest(inputs: torch.Tensor) -> str:
    """A hash of every sample."""
    return hashlib.sha256(inputs.numpy().tobytes()).hexdigest()
