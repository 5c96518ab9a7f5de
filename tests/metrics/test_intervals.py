"""Intervals of a site's metrics: they hold what they promise, and need no sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from fedkf.core.objective import Binary, Objective, Regression, Survival
from fedkf.core.tally import tally
from fedkf.metrics.intervals import interval
from fedkf.metrics.sites import SITE_METRICS, value

Draw = Callable[[np.random.Generator, int], tuple[torch.Tensor, torch.Tensor]]


def binary(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = random.integers(2, size=count)
    return torch.from_numpy(random.normal(labels, 1.0)[:, None]), torch.from_numpy(labels)


def numbers(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    targets = random.normal(size=count)
    return torch.from_numpy(random.normal(targets, 0.5)[:, None]), torch.from_numpy(targets)


def times(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    risks = random.normal(size=count)
    end = random.exponential(np.exp(-risks))
    seen = np.stack([np.minimum(end, 1.5), end < 1.5], 1)
    return torch.from_numpy(risks[:, None]), torch.from_numpy(seen)


@pytest.mark.parametrize(
    ("name", "objective", "draw"),
    [
        ("balanced_accuracy", Binary(), binary),
        ("auroc", Binary(), binary),
        ("average_precision", Binary(), binary),
        ("accuracy", Binary(), binary),
        ("rmse", Regression(), numbers),
        ("r2", Regression(), numbers),
        ("concordance", Survival(), times),
    ],
)
def test_the_truth_lies_in_about_nineteen_of_twenty_intervals(
    name: str, objective: Objective, draw: Draw
) -> None:
    metric, random = SITE_METRICS[name], np.random.default_rng(0)

    def statistics(count: int) -> dict[str, np.ndarray]:
        outputs, targets = draw(random, count)
        if metric.statistic == "counts":
            right = ((outputs[:, 0] > 0).long() == targets).sum()
            return {"counts": np.array([count, int(right)])}
        found = tally(outputs, targets, objective, (metric.statistic,), 2)
        return {key: tensor.numpy() for key, tensor in found.items()}

    truth = value(metric, statistics(3000))
    assert truth is not None
    held = 0
    for _ in range(60):
        (ends,) = interval(metric, statistics(120), random)
        assert ends is not None
        held += ends[0] <= truth <= ends[1]
    assert 52 <= held <= 60


def test_few_samples_or_a_missing_class_have_no_interval() -> None:
    random = np.random.default_rng(0)
    one = tally(torch.zeros(1, 1), torch.ones(1), Binary(), ("confusion", "scores"), 2)
    statistics = {key: tensor.numpy() for key, tensor in one.items()}
    for name in ("balanced_accuracy", "auroc"):
        assert interval(SITE_METRICS[name], statistics, random) == [None]
    assert interval(SITE_METRICS["ece"], statistics, random) == [None]


def test_all_of_a_few_right_is_no_certainty() -> None:
    random = np.random.default_rng(0)
    confusion = {"confusion": np.array([[5, 0], [0, 0]]), "counts": np.array([5, 5])}
    (ends,) = interval(SITE_METRICS["accuracy"], confusion, random)
    assert ends is not None
    assert ends[0] == pytest.approx(0.566, abs=0.001)
    assert interval(SITE_METRICS["sensitivity"], confusion, random) == [ends, None]


def test_a_mean_over_classes_has_the_mean_of_their_intervals() -> None:
    outputs, labels = binary(np.random.default_rng(1), 200)
    scores = tally(outputs, labels, Binary(), ("scores",), 2)["scores"].numpy()
    twice = np.concatenate([scores, scores])
    (one,) = interval(SITE_METRICS["auroc"], {"scores": scores}, np.random.default_rng(2))
    (both,) = interval(SITE_METRICS["auroc"], {"scores": twice}, np.random.default_rng(2))
    assert one is not None
    assert both is not None
    assert both == pytest.approx(one, abs=0.02)


def test_perfect_order_of_a_few_has_no_interval_rather_than_a_sure_one() -> None:
    outputs, labels = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    wanted = ("confusion", "scores")
    found = {k: t.numpy() for k, t in tally(outputs, labels, Binary(), wanted, 2).items()}
    for name in ("auroc", "balanced_accuracy"):
        assert value(SITE_METRICS[name], found) == 1
        assert interval(SITE_METRICS[name], found, np.random.default_rng(0)) == [None]


def test_no_interval_reaches_beyond_what_a_metric_can_be() -> None:
    risks, seen = times(np.random.default_rng(3), 12)
    pairs = tally(risks, seen, Survival(), ("pairs",), 0)["pairs"].numpy()
    (ends,) = interval(SITE_METRICS["concordance"], {"pairs": pairs}, np.random.default_rng(0))
    assert ends is not None
    assert 0 <= ends[0] < ends[1] <= 1
