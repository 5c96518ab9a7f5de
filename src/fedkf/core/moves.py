"""Moves: how unusual each upload of a round was, next to the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from fedkf.core.arithmetic import distance
from fedkf.core.records import Moves
from fedkf.core.uploads import LARGEST

if TYPE_CHECKING:
    from fedkf.core.payload import Weights


def measure(sent: Weights, uploads: Mapping[int, Weights]) -> Moves:
    """How far and in which direction the clients moved from the model that was sent.

    The cosine is that between a client's update and the mean direction of the others', to which
    each counts alike, however far it went.
    """
    clients = sorted(uploads)
    far = {k: distance(sent, uploads[k]) for k in clients}
    # Of two, one of which is a lie, the smaller is the likelier measure.
    middle = statistics.median_low(far.values()) if far else 0.0
    ratios = [far[k] / middle if middle and math.isfinite(middle) else None for k in clients]
    return Moves(
        clients,
        [rounded(far[k]) for k in clients],
        [rounded(ratio) for ratio in ratios],
        [rounded(cosine) for cosine in cosines(sent, uploads, far)],
    )


def cosines(
    sent: Weights, uploads: Mapping[int, Weights], far: Mapping[int, float]
) -> list[float | None]:
    """Of each update with the sum of the others, all at length one; None where one is nothing."""
    moved = [k for k in sorted(uploads) if 0 < far[k] < math.inf]
    along, whole = dict.fromkeys(moved, 0.0), 0.0
    for name, start in sent.items():
        if not start.is_floating_point():
            continue
        total = torch.zeros(start.shape, dtype=torch.float64)
        for k in moved:
            total.add_(uploads[k][name].double() - start.double(), alpha=1 / far[k])
        for k in moved:
            own = uploads[k][name].double() - start.double()
            along[k] += float((own * total).sum()) / far[k]
        whole += float(total.square().sum())
    found: list[float | None] = []
    for k in sorted(uploads):
        rest = whole - 2 * along[k] + 1 if k in along else 0.0
        found.append((along[k] - 1) / math.sqrt(rest) if rest > 1e-12 else None)
    return found


def rounded(value: float | None) -> float | None:
    """Four digits, which is all that a reader needs; nothing for what is no finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def drift(sent: Weights, trained: Mapping[int, Weights]) -> dict[str, float]:
    """Mean distance of the clients' models from the global one that they started from."""
    if not trained:
        return {}
    total = math.fsum(distance(sent, trained[k]) for k in sorted(trained))
    return {"drift": total / len(trained)}


def mean_losses(
    reported: Mapping[int, Mapping[str, float]], sizes: Mapping[int, int]
) -> dict[str, float]:
    """Mean training losses over the clients that reported them, weighted by size.

    What has no mean that is a number of any use is left out.
    """
    names = sorted({name for losses in reported.values() for name in losses})
    means = {}
    for name in names:
        pairs = [(sizes[k], v[name]) for k, v in sorted(reported.items()) if name in v]
        try:
            value = math.fsum(n * v for n, v in pairs) / math.fsum(n for n, _ in pairs)
        except (OverflowError, ValueError):  # too large, or both infinities
            continue
        if abs(value) <= LARGEST:
            means[name] = value
    return means
