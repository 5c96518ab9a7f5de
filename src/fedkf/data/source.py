"""Source: samples with labels, checked, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import proper_text, shown

LARGEST = float(np.finfo(np.float32).max)
Say = Callable[[str], None]
"""Is told what a person should know, a sentence at a time."""


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
    if improper := [name for name in names if not proper_text(name)]:
        raise wrong(f"the class name {shown(improper[0])} holds characters that cannot be shown")
    if min(len(names), len(np.unique(numbers))) < least_classes:
        raise wrong("all samples are of one class; a classifier needs at least two")
    return Source(check_inputs(inputs, wrong), numbers, names)


def check_inputs(inputs: NDArray[Any], wrong: Callable[[str], UserError]) -> NDArray[Any]:
    """Inputs that a model can take: images of bytes or in [0, 1], or any finite floats."""
    if np.issubdtype(inputs.dtype, np.floating):
        if inputs.dtype.itemsize > 8:  # PyTorch knows no longer ones
            inputs = inputs.astype(np.float64)
        if not np.isfinite(inputs).all():
            raise wrong("images hold NaN or infinite values")
        if inputs.size and max(float(inputs.max()), -float(inputs.min())) > LARGEST:
            raise wrong(f"images hold numbers beyond {LARGEST:g}, which float32 cannot hold")
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
        highest = int(labels.max())
        distinct = len(np.unique(labels))
        if class_names is None and highest >= 2 * distinct + 2:
            raise wrong(
                f"labels go up to {highest} but only {distinct} different ones occur; number the "
                "classes from 0, or name them all in data.class_names"
            )
        names = list(class_names or [str(k) for k in range(highest + 1)])
        if highest >= len(names):
            raise wrong(f"data.class_names has {len(names)} names but a label is {highest}")
        numbers = labels.astype(np.int64)
    return numbers, names


def limit_per_class(source: Source, limit: float, random: np.random.Generator) -> Source:
    """At most `limit` samples of each class, or that share of them, drawn at random."""
    kept = []
    for label in np.unique(source.labels):
        order = random.permutation(np.flatnonzero(source.labels == label))
        count = int(limit) if limit >= 1 else max(1, round(limit * len(order)))
        kept.append(order[:count])
    return source.take(np.sort(np.concatenate(kept)))
