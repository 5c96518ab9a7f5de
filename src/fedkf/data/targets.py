"""Targets: what a source's labels are to be, read and checked: classes, numbers or times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import proper_text, shown
from fedkf.core.objective import find

LARGEST = float(np.finfo(np.float32).max)
BEYOND = 1e15
"""Times the median size, from which on a number is a mistake."""
Wrong = Callable[[str], UserError]
"""Makes an error of a reason."""


@dataclass(frozen=True)
class Targets:
    """What labels are asked for: the task, the classes' names, how many of them must occur."""

    task: str = "classification"
    class_names: Sequence[str] | None = None
    least_classes: int = 2

    def read(self, labels: NDArray[Any], wrong: Wrong) -> tuple[NDArray[Any], list[str]]:
        """Targets as training takes them, and the classes' names, if there are classes.

        Classes are int64 [N], numbers float32 [N], times float32 [N, 2]: the time, and 1 where an
        event ended it or 0 where observation did.
        """
        kind = find(self.task).targets
        if kind == "number":
            return numbers(labels, wrong), []
        if kind == "time":
            return times(labels, wrong), []
        if labels.ndim != 1:
            raise wrong(f"labels have shape {labels.shape}; there is one class a sample")
        found, names = number_labels(labels, self.class_names, wrong)
        if improper := [name for name in names if not proper_text(name)]:
            told = shown(improper[0])
            raise wrong(f"the class name {told} holds characters that cannot be shown")
        if min(len(names), len(np.unique(found))) < self.least_classes:
            raise wrong("all samples are of one class; a classifier needs at least two")
        if kind == "two classes" and len(names) != 2:
            raise wrong(
                f"data.task {self.task} takes two classes, and there are {len(names)}; "
                "classification takes any number"
            )
        return found, names


def numbers(labels: NDArray[Any], wrong: Wrong) -> NDArray[np.float32]:
    """A finite number for each sample."""
    if labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise wrong(f"labels of shape {labels.shape} are {labels.dtype}; they must be numbers")
    check_sizes(labels, wrong)
    return labels.astype(np.float32)


def check_sizes(labels: NDArray[Any], wrong: Wrong) -> None:
    """Refuse numbers that are not finite, or absurdly large."""
    finite = np.isfinite(labels)
    odd = absurd(labels) if finite.all() else ~finite
    if odd.any():
        first = int(np.flatnonzero(odd)[0])
        what = "absurdly large beside the others" if finite.all() else "no finite number"
        raise wrong(f"the label of sample {first} is {labels[first]:g}, which is {what}")


def absurd(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which finite numbers float32 cannot hold, or are far beyond the size of the others."""
    sizes = np.abs(values.astype(np.float64))
    some = sizes[sizes > 0]
    usual = float(np.median(some)) if len(some) else 0.0
    result: NDArray[np.bool_] = sizes > min(LARGEST, BEYOND * usual if usual else LARGEST)
    return result


def absurd_inputs(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Likewise of inputs, where small numbers may differ by as much, as p-values do."""
    result: NDArray[np.bool_] = np.abs(values) > BEYOND
    if result.any():
        result &= absurd(values)
    return result


def times(labels: NDArray[Any], wrong: Wrong) -> NDArray[np.float32]:
    """A time that is not negative and whether an event ended it, for each sample."""
    if labels.ndim != 2 or labels.shape[1] != 2 or labels.dtype.kind not in "biuf":
        raise wrong(
            f"labels of shape {labels.shape} are {labels.dtype}; survival takes N×2 numbers, the "
            "time and whether an event ended it (1) or observation did (0)"
        )
    check_sizes(labels[:, 0], wrong)
    if labels[:, 0].min() < 0:
        raise wrong(f"a time is {labels[:, 0].min():g}; times must not be negative")
    if not np.isin(labels[:, 1], (0, 1)).all():
        odd = labels[~np.isin(labels[:, 1], (0, 1)), 1][0]
        raise wrong(f"an event is {odd:g}; it must be 1, or 0 where observation ended first")
    return labels.astype(np.float32)


def number_labels(
    labels: NDArray[Any], class_names: Sequence[str] | None, wrong: Wrong
) -> tuple[NDArray[np.int64], list[str]]:
    """Labels as numbers from 0 and the classes' names in one fixed order."""
    if labels.dtype.kind == "U":
        found = [str(name) for name in np.unique(labels)]
        names = list(class_names) if class_names is not None else found
        if unknown := [name for name in found if name not in names]:
            raise wrong(f"label {unknown[0]!r} is not in data.class_names")
        numbers = np.searchsorted(found, labels.astype(str))
        places = np.array([names.index(name) for name in found], dtype=np.int64)
        numbers = places[numbers]
    else:
        labels = whole(labels)
        if not np.issubdtype(labels.dtype, np.integer):
            raise wrong(f"labels are {labels.dtype}; they must be whole numbers from 0, or names")
        if from_one(labels, class_names):
            last = len(class_names) if class_names is not None else int(labels.max())
            return labels.astype(np.int64) - 1, [str(k) for k in range(1, last + 1)]
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


def whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as whole numbers, where they are true and false, or floats without fractions."""
    if labels.dtype.kind == "b":
        return labels.astype(np.int64)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and not (labels % 1).any():
        return labels.astype(np.int64) if np.abs(labels).max() < 2**53 else labels
    return labels


def from_one(labels: NDArray[Any], class_names: Sequence[str] | None) -> bool:
    """Whether classes are numbered from 1: none is 0, and no names say that they begin there."""
    if not len(labels) or labels.min() < 1:
        return False
    if class_names is None:
        return bool(labels.min() == 1) and int(labels.max()) < 2 * len(np.unique(labels)) + 2
    counted = [str(k) for k in range(1, len(class_names) + 1)]
    return list(class_names) == counted and int(labels.max()) <= len(counted)
