"""What a trained model does for each client, each class, and for mixtures of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkf import metrics

BINS = 15

Group = tuple[str, torch.Tensor, torch.Tensor]
"""A client's name, its inputs as the model takes them, its labels."""


def evaluate(
    model: torch.nn.Module, groups: Sequence[Group], class_names: Sequence[str]
) -> dict[str, Any]:
    """Accuracy per client and per class, confusion and calibration."""
    clients: list[dict[str, Any]] = []
    every_p, every_y = [], []
    for name, x, y in groups:
        if not len(y):
            clients.append({"name": name, "tested": 0, "accuracy": None})
            continue
        with torch.no_grad():
            p = torch.cat([model(part).softmax(1) for part in x.split(256)])
        accuracy = (p.argmax(1) == y).double().mean().item()
        clients.append({"name": name, "tested": len(y), "accuracy": accuracy})
        every_p.append(p)
        every_y.append(y)
    if not every_p:
        return {"clients": clients}
    p, y = torch.cat(every_p), torch.cat(every_y)
    confusion = np.zeros((len(class_names), len(class_names)), dtype=np.int64)
    np.add.at(confusion, (y.numpy(), p.argmax(1).numpy()), 1)
    accuracies = [c["accuracy"] for c in clients]
    sizes = [c["tested"] for c in clients]
    return {
        "amp": metrics.amp(accuracies, sizes),
        "fm": metrics.fm(accuracies),
        "wlp": metrics.wlp(accuracies),
        "clients": clients,
        "classes": [
            {
                "name": name,
                "tested": int(row.sum()),
                "accuracy": float(row[k] / row.sum()) if row.sum() else None,
            }
            for k, (name, row) in enumerate(zip(class_names, confusion, strict=True))
        ],
        "confusion": confusion.tolist(),
        "calibration": calibration(p, y),
    }


def calibration(p: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """How sure the model is, and how far that is from how often it is right (ECE, 15 bins)."""
    confidence, guess = p.max(1)
    right = (guess == y).double()
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gap = 0.0
    for k in range(BINS):
        inside = bins == k
        if inside.any():
            difference = right[inside].mean() - confidence[inside].double().mean()
            gap += inside.double().mean().item() * abs(difference.item())
    return {
        "confidence": confidence.double().mean().item(),
        "accuracy": right.mean().item(),
        "expected_calibration_error": gap,
    }


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
