"""Evaluation: the loss on any number of samples, and metrics of a model's outputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn, tensor

from fedkf.algorithms.fedgkd import FedGKD
from fedkf.core.algorithm import starting_loss
from fedkf.core.client import Client, ClientData
from fedkf.core.evaluation import measured, statistics_of
from fedkf.core.objective import Binary, Classification, Objective, Regression, Survival
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training
from fedkf.metrics.sites import SITE_METRICS
from fedkf.models.personal import loss_on

SIZE = 2600


def client(objective: Objective, targets: Tensor) -> Client:
    """One with far more samples than a pass holds, of which the last are unlike the first."""
    inputs = torch.randn(SIZE, 3, generator=torch.Generator().manual_seed(1))
    inputs[SIZE // 2 :] += 2
    data = ClientData(inputs, targets, inputs[:0], targets[:0])
    outputs = objective.outputs(2)
    task = Task(lambda: nn.Linear(3, outputs), (3,), 2, Training(), Streams(0), objective=objective)
    return Client(0, 1, data, task)


def times() -> Tensor:
    random = torch.Generator().manual_seed(2)
    seen = torch.rand(SIZE, generator=random)
    ended = (torch.rand(SIZE, generator=random) < 0.3).float()
    return torch.stack([seen, ended], 1)


def kinds() -> Tensor:
    """Few of the first samples are of the second class, and most of the last."""
    chance = torch.linspace(0.01, 0.9, SIZE)
    return (torch.rand(SIZE, generator=torch.Generator().manual_seed(3)) < chance).long()


NO_MEANS = {
    "survival": (Survival(), times()),
    "class weights": (Classification(weights=(0.2, 5.0)), kinds()),
}


@pytest.mark.parametrize("name", NO_MEANS)
def test_a_loss_that_is_no_mean_over_samples_is_taken_of_all_at_once(name: str) -> None:
    one = client(*NO_MEANS[name])
    start, x, y = one.task.initial_weights, one.data.images, one.data.labels
    model = one.teacher(start)
    whole = one.task.loss(model(x), y).item()
    pairs = zip(x.split(256), y.split(256), strict=True)
    in_parts = sum(one.task.loss(model(a), b).item() * len(b) for a, b in pairs) / SIZE
    assert abs(in_parts - whole) > 0.01
    assert starting_loss(one, start) == pytest.approx(whole, abs=1e-5)
    assert loss_on(one, start, torch.arange(SIZE)) == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("name", NO_MEANS)
def test_teachers_vote_by_it(name: str) -> None:
    one = client(*NO_MEANS[name])
    start = one.task.initial_weights
    other = {key: -2 * tensor for key, tensor in start.items()}
    teachers = [one.teacher(start), one.teacher(other, "teacher 1")]
    losses = [one.task.loss(t(one.data.images), one.data.labels).item() for t in teachers]
    shares = (-torch.tensor(losses)).softmax(0).tolist()
    assert FedGKD(teacher="vote").votes(one, teachers) == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize(
    ("objective", "targets"), [(Classification(), kinds()), (Regression(), times()[:, 0])]
)
def test_a_mean_over_samples_is_the_mean_of_the_passes_means_to_the_bit(
    objective: Objective, targets: Tensor
) -> None:
    one = client(objective, targets)
    start = one.task.initial_weights
    model = one.start(start).eval()
    total = 0.0
    with torch.no_grad():
        for x, y in zip(one.data.images.split(256), targets.split(256), strict=True):
            total += one.task.loss(model(x), y).item() * len(y)
    assert starting_loss(one, start) == total / SIZE


@pytest.mark.parametrize(
    ("name", "expected"), [("accuracy", 3 / 4), ("balanced_accuracy", 5 / 6), ("auroc", 1.0)]
)
def test_metrics_of_answers_worked_out_by_hand(name: str, expected: float) -> None:
    z, y = tensor([[-2.0], [-1.0], [1.0], [3.0]]), tensor([0, 0, 0, 1])
    assert measured(SITE_METRICS[name], z, y, Binary(), 2) == pytest.approx(expected)


def test_a_metric_that_the_samples_cannot_tell_is_none() -> None:
    z, y = tensor([[-2.0], [1.0]]), tensor([0, 0])
    assert measured(SITE_METRICS["auroc"], z, y, Binary(), 2) is None
    rmse = measured(SITE_METRICS["rmse"], z, y.float(), Regression(), 0)
    assert rmse == pytest.approx((5 / 2) ** 0.5)


def test_counts_are_among_the_statistics_only_where_they_are_asked_for() -> None:
    z, y = tensor([[-2.0], [1.0]]), tensor([0, 0])
    found = statistics_of(z, y, Binary(), ["confusion", "counts"], 2)
    assert found["counts"].tolist() == [2, 1]
    assert found["confusion"].tolist() == [[1, 1], [0, 0]]
    assert list(statistics_of(z, y, Binary(), ["confusion"], 2)) == ["confusion"]
