"""Tallies: what a site says of a model on its test samples: counts and sums, no sample of its own.

`fedkf.metrics.formulas` says what each statistic holds and what is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from fedkf.metrics.formulas import BINS, KNEE, REACH, SURE

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.objective import Objective
    from fedkf.core.payload import Payload

Tally = dict[str, "Tensor"]
KIND = "test_statistics"
"""The kind of payload that tallies are."""
ROWS = 512
"""Samples at a time of which all pairs are looked at."""


def tally(
    outputs: Tensor, targets: Tensor, objective: Objective, statistics: Sequence[str], classes: int
) -> Tally:
    """The statistics of a model's outputs, which may be none, next to the targets."""
    outputs, targets = outputs.detach().cpu().double(), targets.cpu()
    if not objective.labelled():
        taken = objective.predict(outputs), targets
        return {name: OF_NUMBERS[name](*taken) for name in statistics}
    logits = objective.logits(outputs)
    return {name: OF_CLASSES[name](logits, targets.long(), classes) for name in statistics}


def empty(statistic: str, classes: int) -> Tensor:
    """A statistic of no samples: its shape and type."""
    if statistic in OF_CLASSES:
        none = torch.zeros(0, classes, dtype=torch.float64)
        return OF_CLASSES[statistic](none, torch.zeros(0, dtype=torch.long), classes)
    none = torch.zeros(0, dtype=torch.float64)
    return OF_NUMBERS[statistic](none, none if statistic == "errors" else none.view(0, 2))


def blank(readouts: Iterable[str], statistics: Sequence[str], classes: int) -> Tally:
    """What a client without test samples says of these models."""
    return {f"{name}/{s}": empty(s, classes) for name in readouts for s in statistics}


def of_readout(upload: Payload, readout: str) -> Tally:
    """What an upload says of one model."""
    said = upload.tensors.get(KIND, {}).items()
    start = f"{readout}/"
    return {name.removeprefix(start): value for name, value in said if name.startswith(start)}


def confusion(logits: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Samples of each class that were taken for each class."""
    places = targets * classes + logits.argmax(1)
    return places.bincount(minlength=classes**2).view(classes, classes).int()


def scores(logits: Tensor, targets: Tensor, classes: int) -> Tensor:
    """How the log odds of each class are spread over the other samples and over its own.

    With two classes those of the second say it all.
    """
    of = range(1, 2) if classes == 2 else range(classes)
    spread = torch.zeros(len(of), 2, BINS, dtype=torch.int32)
    for place, k in enumerate(of):
        rest = torch.cat([logits[:, :k], logits[:, k + 1 :]], 1).logsumexp(1)
        places = bins(logits[:, k] - rest) + BINS * (targets == k)
        spread[place] = places.bincount(minlength=2 * BINS).view(2, BINS)
    return spread


def bins(odds: Tensor) -> Tensor:
    """The bin of each log odds; what is no number is in the middle."""
    odds = odds.nan_to_num(0.0, REACH, -REACH).clamp(-REACH, REACH)
    far = odds.sign() * (odds.abs() / KNEE).log1p()
    span = torch.tensor(REACH / KNEE, dtype=far.dtype).log1p()
    return ((far / span + 1) * (BINS / 2)).long().clamp(0, BINS - 1)


def calibration(logits: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Wrong and right answers, and how sure the model was of them, by how sure it was."""
    sure, answer = logits.softmax(1).nan_to_num(0.0).max(1)
    right = (answer == targets).long()
    places = 2 * (sure * SURE).long().clamp(max=SURE - 1) + right
    cells = torch.zeros(2 * SURE, 2, dtype=torch.float64)
    cells[:, 0] = places.bincount(minlength=2 * SURE)
    cells[:, 1] = places.bincount(sure, minlength=2 * SURE)
    return cells.view(SURE, 2, 2)


def errors(predicted: Tensor, targets: Tensor) -> Tensor:
    """Sums of products of (1, d, d², e²)."""
    targets = targets.double()
    apart = targets - targets.mean() if len(targets) else targets
    return products(apart, apart**2, (predicted - targets) ** 2)


def pairs(risks: Tensor, targets: Tensor) -> Tensor:
    """Sums of products of (1, a, b), over samples and the pairs that each is in.

    Two samples can be ordered if the earlier ended with the event; at the same time, if only one
    did. The one that had the event first is to have the higher risk.
    """
    times, happened = targets[:, 0], targets[:, 1] > 0
    right, known = torch.zeros_like(risks), torch.zeros_like(risks)
    for rows in torch.arange(len(risks)).split(ROWS):
        t, e, r = (values[rows, None] for values in (times, happened, risks))
        first = e & ((t < times) | ((t == times) & ~happened))
        won = first * ((r > risks).double() + (r == risks).double() / 2)
        right[rows] += won.sum(1)
        known[rows] += first.sum(1)
        right += won.sum(0)
        known += first.sum(0)
    return products(right, known)


def products(*columns: Tensor) -> Tensor:
    """Σ v vᵀ over samples, v being 1 and the columns."""
    rows = torch.stack([torch.ones_like(columns[0]), *columns], 1)
    return rows.T @ rows


OF_CLASSES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "confusion": confusion,
    "scores": scores,
    "calibration": calibration,
}
OF_NUMBERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"errors": errors, "pairs": pairs}
