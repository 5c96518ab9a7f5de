"""What a model is worth to populations that mix the clients in other proportions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mixtures(
    accuracies: Sequence[float | None],
    sizes: Sequence[int],
    count: int,
    random: np.random.Generator,
    radius: float = 1.0,
) -> dict[str, Any]:
    """Accuracy on target populations that mix the clients in other proportions (Section V-D).

    `drawn` are `count` mixtures drawn uniformly; `worst` is the least accuracy of any mixture whose
    χ² distance from the pooled one is at most `radius`; `bound` is the paper's: no mixture at all
    falls below WLP.
    """
    known = [(a, n) for a, n in zip(accuracies, sizes, strict=True) if a is not None and n]
    a = np.array([x for x, _ in known])
    pooled = np.array([n for _, n in known], dtype=float)
    pooled /= pooled.sum()
    drawn = random.dirichlet(np.ones(len(a)), count) @ a
    proportions, worst = worst_mixture(a, pooled, radius)
    return {
        "count": count,
        "drawn": {
            "least": float(drawn.min()),
            "tenth": float(np.quantile(drawn, 0.1)),
            "mean": float(drawn.mean()),
        },
        "radius": radius,
        "worst": worst,
        "worst_proportions": proportions.tolist(),
        "bound": float(a.min()),
    }


def worst_mixture(
    a: NDArray[np.float64], pooled: NDArray[np.float64], radius: float
) -> tuple[NDArray[np.float64], float]:
    """min Σ p a over mixtures p with Σ (p − pooled)² / pooled ≤ radius.

    At the minimum p is proportional to pooled · max(0, η − a); the distance falls as η grows, so a
    bisection finds the η at which the budget is used up.
    """

    def mixture(eta: float) -> NDArray[np.float64]:
        p = pooled * np.clip(eta - a, 0, None)
        result: NDArray[np.float64] = p / p.sum()
        return result

    def distance(p: NDArray[np.float64]) -> float:
        return float((((p - pooled) ** 2) / pooled).sum())

    low, high = float(a.min()), float(a.min()) + 1e-9
    if float(a.max()) == low or distance(mixture(high)) <= radius:
        p = pooled * (a == low)
        p = p / p.sum()
        return p, low
    while distance(mixture(high)) > radius:
        high = low + 2 * (high - low)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if distance(mixture(middle)) > radius else (low, middle)
    p = mixture(high)
    return p, float(p @ a)
