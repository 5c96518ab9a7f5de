"""Arithmetic on weights: floating-point tensors are computed with, integers carried along."""

from __future__ import annotations

import math
from collections.abc import Callable
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


def subtract(a: Weights, b: Weights) -> Weights:
    """a − b."""
    return combine(lambda x, y: x - y, a, b)


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
