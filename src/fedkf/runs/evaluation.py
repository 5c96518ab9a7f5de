"""What a trained model does for each client and each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

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
