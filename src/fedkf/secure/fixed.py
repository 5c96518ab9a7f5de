"""Models as whole numbers: sums of those are exact, in any order, modulo 2⁶⁴.

A client's part of a sum is n_k·w_k in steps of 2⁻²⁴. What it says for T1 is the difference from
the whole numbers that were accepted of it last, so that a running sum never drifts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedkf.core.payload import Weights

STEP = 2.0**-24
ROOM = 2.0**61
"""What all clients' numbers together stay below, so that sums and differences fit 64 bits."""
Whole = NDArray[np.int64]


class TooLarge(Exception):
    """A model that does not fit the fixed point."""


def encode(weights: Weights, size: int, clients: int) -> Whole:
    """n·w of all floating-point tensors in a row, for a federation of so many clients."""
    parts = [t.detach().cpu().double().flatten() for t in floats(weights).values()]
    scaled = torch.cat([torch.zeros(0, dtype=torch.float64), *parts]) * (size / STEP)
    if not bool((scaled.abs() < ROOM / clients).all()):
        most = ROOM / clients / size * STEP
        raise TooLarge(f"its weights hold NaN or values beyond {most:.3g}, too large for sums")
    return scaled.round().to(torch.int64).numpy()


def decode(whole: Whole, like: Weights) -> Weights:
    """What `encode` was given times n, in float64, in the shapes of `like`."""
    values = torch.from_numpy(whole.copy()).double() * STEP
    sums: Weights = {}
    begin = 0
    for name, tensor in floats(like).items():
        sums[name] = values[begin : begin + tensor.numel()].view(tensor.shape)
        begin += tensor.numel()
    return sums


def length(weights: Weights) -> int:
    """How many numbers a model has."""
    return sum(tensor.numel() for tensor in floats(weights).values())


def floats(weights: Mapping[str, torch.Tensor]) -> Weights:
    """By name: a model that comes from a file has its tensors in another order."""
    return {name: t for name, t in sorted(weights.items()) if t.is_floating_point()}


def mean(sums: Weights, size: int, like: Weights) -> Weights:
    """Σ n w / Σ n; integer tensors, which no sum has, are those of `like`."""
    return {
        name: (sums[name] / size).to(tensor.dtype) if name in sums else tensor.clone()
        for name, tensor in like.items()
    }
