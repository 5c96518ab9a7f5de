"""AMP, FM and WLP: how accurate a model is over all clients, and how fair (Definitions 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["amp", "fm", "wlp"]


def _tested(accuracies: Sequence[float | None]) -> list[float]:
    known = [a for a in accuracies if a is not None and not math.isnan(a)]
    if not known:
        raise ValueError("no client has test data, so there is no accuracy to summarise")
    return known


def amp(accuracies: Sequence[float | None], sizes: Sequence[float] | None = None) -> float:
    """Average model performance: the mean accuracy, each client weighted by its test size.

    >>> round(amp([0.5, 1.0], sizes=[1, 3]), 3)
    0.875
    """
    _tested(accuracies)
    weights = [1.0] * len(accuracies) if sizes is None else list(sizes)
    if len(weights) != len(accuracies):
        raise ValueError(f"{len(accuracies)} accuracies but {len(weights)} sizes")
    pairs = [
        (a, n)
        for a, n in zip(accuracies, weights, strict=True)
        if a is not None and not math.isnan(a)
    ]
    return math.fsum(a * n for a, n in pairs) / math.fsum(n for _, n in pairs)


def fm(accuracies: Sequence[float | None]) -> float:
    """Fairness metric: the population variance of the accuracies; smaller is fairer.

    >>> round(fm([0.6, 0.7, 0.8]), 5)
    0.00667
    """
    known = _tested(accuracies)
    mean = math.fsum(known) / len(known)
    return math.fsum((a - mean) ** 2 for a in known) / len(known)


def wlp(accuracies: Sequence[float | None]) -> float:
    """Worst-case local performance: the accuracy of the client that is served worst.

    >>> wlp([0.6, 0.7, 0.8])
    0.6
    """
    return min(_tested(accuracies))
