"""Scaling: mean and variance of each input, agreed across sites without pooling their samples.

Every site sums up its own training samples; the sums are merged (Chan, Golub and LeVeque), which
gives what the pooled samples would give. A site sends count, mean and sum of squared deviations:
as much as sums and squares tell, without their loss of digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkf.core.payload import Payload
from fedkf.data.notes import FEW_ROWS

Floats = NDArray[np.float64]
KIND = "input_statistics"
LARGEST = 1e30
"""No input is that large; float32 holds it, and float64 its square."""
DIGITS = 9
"""Significant ones of what is agreed: beyond what float32 holds, and the same on any machine."""


@dataclass(frozen=True)
class Moments:
    """Of each input (column of a table, channel of a signal): how many values, their mean, and the
    sum of their squared deviations from it."""

    count: Floats
    mean: Floats
    spread: Floats

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        gap = other.mean - self.mean
        spread = self.spread + other.spread + gap**2 * self.count * share
        return Moments(count, self.mean + gap * share, spread)

    def payload(self) -> Payload:
        """As they leave a site."""
        return Payload().add(KIND, {k: torch.from_numpy(v) for k, v in vars(self).items()})

    @classmethod
    def read(cls, sent: Payload, inputs: int, most: float) -> Moments | None:
        """What came from a site for so many inputs, of at most so many values each; None if nothing
        honest looks like it."""
        if dict(sent.kinds) != {KIND: KIND} or set(sent[KIND]) != {"count", "mean", "spread"}:
            return None
        parts = [sent[KIND][name] for name in ("count", "mean", "spread")]
        if any(p.dtype != torch.float64 or p.shape != (inputs,) for p in parts):
            return None
        count, mean, spread = (part.numpy() for part in parts)
        counted = (count >= 0) & (count <= most) & (count == np.floor(count))
        if not (counted & np.isfinite(mean) & np.isfinite(spread) & (spread >= 0)).all():
            return None
        small = (np.abs(mean) <= LARGEST) & (np.sqrt(spread / np.maximum(count, 1)) <= LARGEST)
        fine = small & ((count > 0) | ((mean == 0) & (spread == 0)))
        return cls(count, mean, spread) if fine.all() else None


def moments(inputs: NDArray[Any], least: int = FEW_ROWS) -> Moments:
    """Of a site's samples N×inputs×…, without what is missing.

    An input with values in fewer than `least` samples has none: a mean over so few would nearly be
    their values.
    """
    x = inputs.reshape(len(inputs), inputs.shape[1], -1).astype(np.float64)
    there = ~np.isnan(x)
    enough = there.any(2).sum(0) >= least
    count = there.sum((0, 2)) * enough
    filled = np.where(there, x, 0.0)
    mean = np.divide(filled.sum((0, 2)), count, out=np.zeros(x.shape[1]), where=count > 0)
    gaps = np.where(there, x - mean[None, :, None], 0.0)
    return Moments(count.astype(np.float64), mean, (gaps**2).sum((0, 2)) * enough)


def joined(parts: Sequence[Moments]) -> Moments:
    """Those of different inputs, one after the other."""
    names = ("count", "mean", "spread")
    return Moments(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def merged(parts: Iterable[Moments]) -> Moments:
    """Those of all samples together, in the order of the sites."""
    return reduce(Moments.__add__, parts)


def scale(total: Moments) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each input; 1 for one that does not vary."""
    counted = np.maximum(total.count, 1)
    deviation = np.sqrt(total.spread / counted)
    varies = deviation > 1e-6 * np.maximum(1e-6, np.abs(total.mean))
    return rounded(total.mean), rounded(np.where(varies, deviation, 1.0))


def rounded(values: Floats) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def filled(x: torch.Tensor, mean: Sequence[float]) -> torch.Tensor:
    """Samples with the mean of an input where it is missing."""
    return completed(x, mean) if x.isnan().any() else x


def completed(x: torch.Tensor, mean: Sequence[float]) -> torch.Tensor:
    """The same without a look at whether any is missing, so that a graph can hold it."""
    centre = torch.tensor([*mean], dtype=x.dtype, device=x.device)
    column = centre.view(1, -1, *(1 for _ in x.shape[2:]))
    return torch.where(x.isnan(), column.expand(x.shape), x)
