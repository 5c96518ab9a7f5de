"""Uploads: what a client may send up, and why one cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from fedkf.core.payload import HIDING, KINDS, Payload
from fedkf.core.tally import KIND, empty

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm

ALWAYS_DISCLOSED = ("weights", "sizes", "monitoring")
"""Kinds that any client sends, whatever the algorithm."""
MOST_SAMPLES = 2**40
"""More than any client has."""
NUMBERS = ("sizes", "local_loss", "monitoring")
TENSORS = ("weights", "label_counts", *HIDING)
"""Kinds whose entries that an algorithm asks for by name are numbers, and those that are tensors;
of all others they may be either."""
LARGEST = 1e15
"""No weight, loss or statistic is that large."""


def missing(upload: Payload, algorithm: Algorithm, step: str) -> str:
    """What the algorithm needs of the step's upload and does not find, or what it must not hold."""
    needed = algorithm.uploads if step == "local_update" else algorithm.client_steps.get(step, ())
    for name in needed:
        named, _, entry = name.partition("/")
        group, _, kind = named.partition(":")
        if group not in upload:
            return f"it lacks {group}"
        kind = kind or (group if group in KINDS else upload.kinds[group])
        if upload.kinds[group] != kind:
            return f"{group} is of the kind {upload.kinds[group]!r}, not {kind!r}"
        if entry and not holds(upload, group, entry):
            return f"it lacks {entry!r} of {group}"
    allowed = {*ALWAYS_DISCLOSED, *algorithm.discloses}
    for group, kind in upload.kinds.items():
        if kind not in allowed:
            return f"{group} is of the kind {kind!r}, which {algorithm.name} does not ask for"
    return ""


def holds(upload: Payload, group: str, entry: str) -> bool:
    """Whether an entry is there, as a number or a tensor, whichever its kind is."""
    kind = upload.kinds[group]
    number = entry in upload.numbers[group] and kind not in TENSORS
    return number or (entry in upload[group] and kind not in NUMBERS)


def fault(upload: Payload, down: Payload, classes: int | None = None) -> str:
    """Why an upload cannot be used, or nothing. Weights must match those sent by the same name."""
    for group, kind in upload.kinds.items():
        if group not in down or down.kinds[group] != "weights":
            continue
        if kind != "weights":
            return f"{group} is of the kind {kind!r}, not weights"
        if reason := mismatch(group, upload, down):
            return reason
    return next(implausible(upload, classes), "")


def mismatch(group: str, upload: Payload, down: Payload) -> str:
    """In what a group differs from the one of its name that was sent, but for its values."""
    sent, got = down[group], upload[group]
    if absent := sorted(sent.keys() - got.keys()):
        return f"{group} lack {absent[0]!r}"
    if extra := sorted(got.keys() - sent.keys()):
        return f"{group} have {extra[0]!r}, which the model does not"
    for name, tensor in sent.items():
        if got[name].shape != tensor.shape:
            return f"{name!r} has shape {list(got[name].shape)}, not {list(tensor.shape)}"
        if got[name].dtype != tensor.dtype:
            return f"{name!r} is {got[name].dtype}, not {tensor.dtype}"
    return ""


def implausible(upload: Payload, classes: int | None) -> Iterator[str]:
    """Values that nothing honest has."""
    for group, kind in upload.kinds.items():
        if kind in ("monitoring", KIND):  # only metrics depend on them, which may be missing
            continue
        for name, number in upload.numbers[group].items():
            if not math.isfinite(number) or abs(number) > LARGEST:
                yield f"{group} holds NaN or infinite numbers, or absurd ones"
            if kind in RULES and not RULES[kind](number):
                yield f"{name!r} of {group} is {number!r}, which cannot be"
        for name, tensor in upload[group].items():
            if tensor.is_complex():
                yield f"{group} {name!r} holds complex numbers"
            if tensor.is_floating_point() and not (tensor.abs() <= LARGEST).all():
                yield f"{group} {name!r} holds NaN or infinite values, or absurd ones"
            if kind == "label_counts" and not countable(tensor, classes):
                yield f"{group} {name!r} is no count of samples per class"


RULES: dict[str, Callable[[float], bool]] = {
    "sizes": lambda number: type(number) is int and 1 <= number <= MOST_SAMPLES,
    "label_counts": lambda number: type(number) is int and 0 <= number <= MOST_SAMPLES,
    "local_loss": lambda number: abs(number) <= 1e9,
}
"""What the numbers of a kind may be."""


def countable(tensor: torch.Tensor, classes: int | None) -> bool:
    shaped = classes is None or list(tensor.shape) == [classes]
    return shaped and bool((tensor >= 0).all() and (tensor <= MOST_SAMPLES).all())


def miscounted(upload: Payload, down: Payload) -> str:
    """Why an evaluation's counts cannot be used, or nothing."""
    counts = upload.numbers.get("monitoring", {})
    if absent := sorted({"tested", *down} - counts.keys()):
        return f"it does not count {absent[0]!r}"
    for name, count in counts.items():
        if type(count) is not int or not 0 <= count <= counts["tested"] <= MOST_SAMPLES:
            return f"{name!r} is {count!r}, which is no count of its test samples"
    return ""


def mistallied(upload: Payload, statistics: Sequence[str], classes: int) -> str:
    """Why the statistics of an evaluation cannot be used, or nothing.

    Those of classes must be of as many samples as were tested.
    """
    counts = upload.numbers.get("monitoring", {})
    found = upload.tensors.get(KIND, {})
    judged = [name for name in counts if name != "tested"]
    wanted = [f"{name}/{statistic}" for name in judged for statistic in statistics]
    if extra := sorted(found.keys() - set(wanted)):
        return f"it holds {extra[0]!r}, which nobody asked for"
    for name in wanted:
        if name not in found:
            return f"it lacks the statistic {name!r}"
        tensor, like = found[name], empty(name.rpartition("/")[2], classes)
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            return f"{name!r} is {tensor.dtype} of shape {list(tensor.shape)}"
        if miscount(name.rpartition("/")[2], tensor, int(counts["tested"])):
            return f"{name!r} is no statistic of its {counts['tested']} test samples"
    return ""


def miscount(statistic: str, tensor: torch.Tensor, tested: int) -> bool:
    """Whether a statistic is of another number of samples."""
    if statistic in ("errors", "pairs"):
        return float(tensor[0, 0]) != tested
    sums = {
        "confusion": lambda: tensor.sum()[None],
        "scores": lambda: tensor.sum((1, 2)),
        "calibration": lambda: tensor[..., 0].sum()[None],
    }[statistic]()
    return bool((tensor < 0).any() or (sums != tested).any())
