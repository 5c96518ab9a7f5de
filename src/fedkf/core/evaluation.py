"""Evaluation: which samples a model classifies correctly, and what a site says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedkf.core.objective import Classification, Objective
from fedkf.core.payload import Payload
from fedkf.core.tally import KIND, Tally, tally
from fedkf.metrics.sites import SiteMetric, value

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import ClientData
    from fedkf.core.task import Task
    from fedkf.metrics.formulas import Statistic

CHUNK = 256
"""Samples per pass; fixed, so that results do not depend on who evaluates how many at a time."""


def correct(
    model: nn.Module, images: Tensor, labels: Tensor, objective: Objective | None = None
) -> Tensor:
    """Which of the samples are classified correctly, as a tensor of truth values on the CPU.

    Without classes, none is.
    """
    return right(outputs(model, images), labels, objective or Classification())


def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """What a model makes of inputs, on the CPU: in float32, also in the midst of training."""
    with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
        return torch.cat([model(x).cpu() for x in images.split(CHUNK)])


def mean_loss(
    task: Task, model: nn.Module, inputs: Tensor, targets: Tensor, chunk: int = CHUNK
) -> float:
    """The task's loss of a model on any number of samples, which it sees `chunk` at a time.

    A loss that is no mean over samples, such as Cox's, has them all at once before it.
    """
    with torch.no_grad(), task.precision(training=False):
        found = torch.cat([model(x) for x in inputs.split(chunk)])
        size = chunk if task.objective.averages else len(targets)
        parts = zip(found.split(size), targets.split(size), strict=True)
        return sum(task.loss(some, y).item() * len(y) for some, y in parts) / len(targets)


def right(found: Tensor, targets: Tensor, objective: Objective) -> Tensor:
    if not objective.labelled():
        return torch.zeros(len(found), dtype=torch.bool)
    return objective.logits(found).argmax(1) == targets.cpu()


def statistics_of(
    found: Tensor, targets: Tensor, objective: Objective, names: Sequence[str], classes: int
) -> dict[str, Statistic]:
    """Statistics of a model's outputs as metrics take them: `counts`, or what a tally holds."""
    told = [name for name in names if name != "counts"]
    said = tally(found, targets, objective, told, classes)
    statistics: dict[str, Statistic] = {name: tensor.numpy() for name, tensor in said.items()}
    if "counts" in names:
        hits = right(found, targets, objective)
        statistics["counts"] = np.array([len(targets), int(hits.sum())])
    return statistics


def measured(
    metric: SiteMetric, found: Tensor, targets: Tensor, objective: Objective, classes: int
) -> float | None:
    """A metric of a model's outputs, or None where these samples have none."""
    return value(metric, statistics_of(found, targets, objective, [metric.statistic], classes))


def judge(task: Task, data: ClientData, readouts: Payload) -> Payload:
    """What a site answers about its test samples: counts, and the statistics of the task if any.

    A site without any answers with zeros.
    """
    x, y = data.test_images, data.test_labels
    counts: dict[str, int | float] = {"tested": len(y), **dict.fromkeys(readouts, 0)}
    found: Tally = {}
    for name in readouts if len(y) or task.statistics else ():
        made = torch.zeros(0, task.outputs)
        if len(y):
            made = outputs(task.load("student", readouts[name]).eval(), x)
        counts[name] = int(right(made, y, task.objective).sum())
        said = tally(made, y, task.objective, task.statistics, task.classes)
        found |= {f"{name}/{statistic}": value for statistic, value in said.items()}
    report = Payload(monitoring=counts)
    return report.add(KIND, found, KIND) if found else report


def count(task: Task, parts: Sequence[ClientData], readouts: Payload) -> Payload:
    """What several sites would answer, each in its place.

    Counts are made in one pass over all. Statistics hold sums of numbers, whose last bits depend on
    what a pass holds: so each site has passes of its own, as where it is alone.
    """
    if task.statistics:
        answers = [judge(task, part, readouts) for part in parts]
        numbers = [answer.numbers["monitoring"] for answer in answers]
        counts = {name: torch.tensor([n[name] for n in numbers]) for name in readouts}
        names = answers[0][KIND]
        stacked = {name: torch.stack([answer[KIND][name] for answer in answers]) for name in names}
        return Payload(counts=counts, **{KIND: stacked})
    images = torch.cat([part.test_images for part in parts])
    labels = torch.cat([part.test_labels for part in parts])
    sizes = [len(part.test_labels) for part in parts]
    counts = {}
    for name in readouts:
        model = task.load("student", readouts[name]).eval()
        hits = correct(model, images, labels, task.objective).split(sizes)
        counts[name] = torch.stack([part.sum() for part in hits])
    return Payload(counts=counts)
