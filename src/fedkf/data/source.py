"""Source: samples with labels, checked, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.objective import find
from fedkf.data.targets import LARGEST, Targets

if TYPE_CHECKING:
    from fedkf.data.columns import Layout

Say = Callable[[str], None]
"""Is told what a person should know, a sentence at a time."""


@dataclass(frozen=True)
class Source:
    """Samples N×C×H×W (images, uint8 or float in [0, 1]) or N×… (anything else, float).

    `labels` are what `task` asks for (data/targets.py); where those are no classes, `class_names`
    is empty. `owners` says which client holds which sample, where the source knows.
    """

    inputs: NDArray[Any]
    labels: NDArray[Any]
    class_names: list[str]
    owners: NDArray[np.int64] | None = None
    owner_names: Sequence[str] = ()
    task: str = "classification"
    measured: bool = False
    """Inputs have units of their own (a table, a signal), so that they are scaled by default; NaN
    stands for what was not measured."""
    tested: NDArray[np.bool_] | None = None
    """Which samples test, where the source says so."""
    units: NDArray[np.int64] | None = None
    """What must not be on both sides of the split, such as the windows of one recording."""
    units_by: str | None = None
    """The column or array that tells units, where one of the user's own choice does."""
    index: NDArray[np.int64] | None = None
    """Where each sample stood in its source, before any was left out."""
    layout: Layout | None = None
    """What a table's inputs are made of."""
    decimal: str | None = None
    """How its files write numbers, where it is known and they may be written otherwise."""
    channels: Sequence[str] = ()
    """The columns that a recording's channels were, or the numbers of an array's, in order."""
    groups: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    """What else is known of each sample and asked for (`data.groups`)."""

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def images(self) -> bool:
        return self.inputs.ndim == 4

    @property
    def strata(self) -> NDArray[np.int64]:
        """The classes; fifths by size of a number, and whether the event happened."""
        return stratified(self.labels) if not self.class_names else self.labels

    def take(self, chosen: NDArray[Any]) -> Source:
        names = ("inputs", "labels", "owners", "tested", "units", "index")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        kept: dict[str, Any] = {k: None if v is None else v[chosen] for k, v in parts.items()}
        groups = {name: values[chosen] for name, values in self.groups.items()}
        return replace(self, **kept, groups=groups)


def stratified(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers as a few groups: fifths by size, or with and without the event."""
    if labels.ndim == 2:
        return labels[:, 1].astype(np.int64)
    limits = np.quantile(labels, (0.2, 0.4, 0.6, 0.8)) if len(labels) else np.zeros(4)
    return np.searchsorted(limits, labels, side="left").astype(np.int64)


def named(source: Source, class_names: Sequence[str] | None) -> Source:
    """The source with the configuration's names for its classes."""
    if class_names is None or not source.class_names:
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


def retargeted(source: Source, targets: Targets, where: str) -> Source:
    """A source for another task with the same kind of targets, or a sentence that says why not."""

    def wrong(reason: str) -> UserError:
        return UserError(f"data.source: {where}: {reason}")

    asked = find(targets.task)
    if not asked.labelled():
        if asked.targets == find(source.task).targets:
            return replace(source, task=targets.task)
        raise wrong(f"its labels are classes, which data.task {targets.task} does not take")
    labels, names = replace(targets, class_names=source.class_names).read(source.labels, wrong)
    return replace(source, labels=labels, class_names=names, task=targets.task)


def check(
    where: str,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    targets: Targets = Targets(),  # noqa: B008
) -> Source:
    """Samples that can be trained on, or a sentence that says why not."""

    def wrong(reason: str) -> UserError:
        return UserError(f"{where}: {reason}")

    flat = labels.ndim == 1 or targets.task != "classification"
    if not flat or len(labels) != len(inputs):
        raise wrong(f"{len(inputs)} samples but labels of shape {labels.shape}")
    if len(inputs) == 0:
        raise wrong("it holds no samples")
    read, names = targets.read(labels, wrong)
    return Source(check_inputs(inputs, wrong), read, names, task=targets.task)


def check_inputs(inputs: NDArray[Any], wrong: Callable[[str], UserError]) -> NDArray[Any]:
    """Inputs that a model can take: images of bytes or in [0, 1], or any finite floats."""
    what = "images" if inputs.ndim == 4 else "inputs"
    if np.issubdtype(inputs.dtype, np.floating):
        if inputs.dtype.itemsize > 8:  # PyTorch knows no longer ones
            inputs = inputs.astype(np.float64)
        if not np.isfinite(inputs).all():
            raise wrong(f"{what} hold NaN or infinite values")
        if inputs.size and max(float(inputs.max()), -float(inputs.min())) > LARGEST:
            raise wrong(f"{what} hold numbers beyond {LARGEST:g}, which float32 cannot hold")
        if inputs.ndim == 4 and (inputs.min() < 0 or inputs.max() > 1):
            raise wrong(
                f"float images must lie in [0, 1], these go from {inputs.min():g} to "
                f"{inputs.max():g}"
            )
    elif inputs.ndim != 4 and np.issubdtype(inputs.dtype, np.integer):
        inputs = inputs.astype(np.float32)
    elif inputs.dtype != np.uint8:
        needed = "uint8, or float in [0, 1]" if what == "images" else "numbers"
        raise wrong(f"{what} are {inputs.dtype}; they must be {needed}")
    return inputs


def limit_per_class(source: Source, limit: float, random: np.random.Generator) -> Source:
    """At most `limit` samples of each class, or that share of them, drawn at random."""
    kept, strata = [], source.strata
    for label in np.unique(strata):
        order = random.permutation(np.flatnonzero(strata == label))
        count = int(limit) if limit >= 1 else max(1, round(limit * len(order)))
        kept.append(order[:count])
    return source.take(np.sort(np.concatenate(kept)))
