"""What a trained model does for each client and each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fedkf.core.evaluation import outputs, statistics_of
from fedkf.core.objective import Classification, Objective
from fedkf.core.tally import confusion
from fedkf.metrics import OURS, PAPER
from fedkf.metrics.formulas import COARSE, SURE, auroc_resolution
from fedkf.metrics.intervals import interval
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, Judgement, judgement, summary_of, value

Group = tuple[str, torch.Tensor, torch.Tensor]
"""A client's name, its inputs as the model takes them, its labels."""


def evaluate(
    model: torch.nn.Module,
    groups: Sequence[Group],
    class_names: Sequence[str],
    objective: Objective | None = None,
    metric: str | None = None,
) -> dict[str, Any]:
    """Every metric of each client; for classes also accuracy per class, confusion, calibration.

    Samples are here, so that there is nothing to disclose: all that the task has is computed.
    """
    aim = objective or Classification()
    fitting = [name for name, about in SITE_METRICS.items() if aim.targets in about.targets]
    judged = judgement(aim.targets, fitting, metric)
    found = [outputs(model, x) if len(y) else torch.zeros(0) for _, x, y in groups]
    clients = [
        client_row(k, groups[k], made, (aim, judged, len(class_names)))
        for k, made in enumerate(found)
    ]
    tested = [c["tested"] for c in clients]
    if not any(tested):
        return {"clients": clients}
    performance = [c["metrics"].get(judged.metric) if c["tested"] else None for c in clients]
    numbers = summary_of(judged.metric, performance, tested)
    own = [name for name in numbers if name not in OURS]
    result: dict[str, Any] = {name: numbers[name] for name in (*PAPER, *own)}
    if judged.metric != ACCURACY:
        result["metric"] = judged.metric
    if not aim.labelled():
        return {**result, "clients": clients}
    p = aim.logits(torch.cat([made for made in found if len(made)])).softmax(1)
    y = torch.cat([y for _, _, y in groups]).long()
    return {**result, "clients": clients, **of_classes(p, y, class_names)}


def client_row(
    number: int, group: Group, made: torch.Tensor, how: tuple[Objective, Judgement, int]
) -> dict[str, Any]:
    """What the model does for one client."""
    name, _, y = group
    aim, judged, classes = how
    if not len(y):
        return {"name": name, "tested": 0, "accuracy": None}
    statistics = statistics_of(made, y, aim, ["counts", *judged.statistics], classes)
    random = np.random.default_rng(number)
    off = float(auroc_resolution(statistics["scores"])) if "scores" in statistics else 0.0
    return {
        "name": name,
        "tested": len(y),
        "accuracy": value(SITE_METRICS[ACCURACY], statistics) if aim.labelled() else None,
        **({"confusion": statistics["confusion"].tolist()} if aim.labelled() else {}),
        "metrics": {m.name: value(m, statistics) for m in judged.scalars},
        "intervals": {m.name: interval(m, statistics, random)[0] for m in judged.scalars},
        **({"resolution": {"auroc": off}} if off > COARSE else {}),
    }


def of_classes(p: torch.Tensor, y: torch.Tensor, class_names: Sequence[str]) -> dict[str, Any]:
    """How well each class is known over all clients, what it is taken for, and how surely."""
    taken = confusion(p, y, len(class_names)).numpy()
    return {
        "classes": [
            {
                "name": name,
                "tested": int(row.sum()),
                "accuracy": float(row[k] / row.sum()) if row.sum() else None,
            }
            for k, (name, row) in enumerate(zip(class_names, taken, strict=True))
        ],
        "confusion": taken.tolist(),
        "calibration": calibration(p, y),
    }


def calibration(p: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """How sure the model is, and how far that is from how often it is right (ECE, 15 bins)."""
    confidence, guess = p.max(1)
    right = (guess == y).double()
    bins = (confidence * SURE).long().clamp(max=SURE - 1)
    gap = 0.0
    for k in range(SURE):
        inside = bins == k
        if inside.any():
            difference = right[inside].mean() - confidence[inside].double().mean()
            gap += inside.double().mean().item() * abs(difference.item())
    return {
        "confidence": confidence.double().mean().item(),
        "accuracy": right.mean().item(),
        "expected_calibration_error": gap,
    }
