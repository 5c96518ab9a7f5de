"""Arithmetic on weights: floating-point tensors are computed with, integers carried along."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.payload import Weights


def combine(function: Callable[..., Tensor], first: Weights, *others: Weights) -> Weights:
    """Apply a function tensor by tensor; integer tensors are those of the first.

    >>> import torch
    >>> a, b = {"w": torch.tensor([3.0])}, {"w": torch.tensor([1.0])}
    >>> combine(lambda x, y: x - y, a, b)
    {'w': tensor([2.])}
    """
    return {
        name: function(tensor, *(other[name] for other in others))
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }


DIGITS = 30.0
"""Powers beyond 1e30, or below 1e-30, would leave float32."""


def powers(values: Sequence[float], exponent: float) -> list[tuple[float, float]]:
    """Each value to the power of the exponent, and the slope of that there.

    For rules in which a common unit of the values cancels: it is 1, or the highest of them where a
    power would leave float32.

    >>> powers([1.0, 3.0], 2.0)
    [(1.0, 2.0), (9.0, 6.0)]
    >>> powers([0.0, 1e9], 5.0)[1]
    (1.0, 5e-09)
    """
    highest = max(values)
    unit = 1.0 if abs(exponent * math.log10(highest)) <= DIGITS else highest
    shares = [value / unit for value in values]
    return [(x**exponent, exponent * x ** (exponent - 1) / unit) for x in shares]


def subtract(a: Weights, b: Weights, unit: float = 1.0) -> Weights:
    """(a − b) / unit."""
    return combine(lambda x, y: (x - y) / unit, a, b)


def squared_norm(weights: Weights) -> float:
    """‖w‖², in float64."""
    parts = (t.double().square().sum() for t in weights.values() if t.is_floating_point())
    return float(sum(parts))


def zeros_like(weights: Weights) -> Weights:
    return combine(lambda x: x.new_zeros(x.shape), weights)


def distance(a: Weights, b: Weights) -> float:
    """The Euclidean distance between two models, floating-point tensors only."""
    squares = [
        (a[name].double() - b[name].double()).square().sum().item()
        for name in a
        if a[name].is_floating_point()
    ]
    return math.sqrt(math.fsum(squares))


def towards(start: Weights, end: Weights, rate: float) -> Weights:
    """start + rate (end − start), in a form that is exactly `end` at rate 1."""
    return combine(lambda e, s: e + (rate - 1) * (e - s), end, start)
