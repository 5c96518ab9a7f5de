"""Answers to evaluations: counts and sums such as test samples could have."""

from __future__ import annotations

import math

import pytest
import torch

from fedkf.core.payload import Payload
from fedkf.core.tally import empty, errors, pairs
from fedkf.core.uploads import Announced, miscount, miscounted, mistallied
from fedkf.metrics import sites


def test_test_samples_are_those_announced_and_readouts_those_asked_for() -> None:
    asked = Payload().add("aca", {"w": torch.zeros(3)}, "weights")
    upload = Payload(monitoring={"tested": 2**40, "aca": 2**40, "mine": 3})
    assert miscounted(upload, asked) == ""
    assert miscounted(upload, asked, more=()) == "it counts 'mine', which nobody asked for"
    upload = Payload(monitoring={"tested": 2**40, "aca": 2**40, "personal": 3})
    reason = miscounted(upload, asked, Announced(tested=7), ("personal",))
    assert reason == "it tested on 1099511627776 samples, and said that it has 7"
    for tested in (7, 0):  # a site may have ceased to count
        upload = Payload(monitoring={"tested": tested, "aca": tested})
        assert miscounted(upload, asked, Announced(tested=7), ()) == ""


def test_sums_over_test_samples_are_such_that_samples_could_have() -> None:
    random = torch.Generator().manual_seed(0)
    targets = 1e6 * torch.randn(50, generator=random, dtype=torch.float64)
    for honest in (
        errors(torch.zeros(50, dtype=torch.float64), targets),
        errors(targets, targets),
        errors(targets, torch.full_like(targets, 0.1)),
        errors(1e-3 * targets, 1e-30 * targets),
        empty("errors", 1),
    ):
        assert not miscount("errors", honest, int(honest[0, 0]))
    ends = torch.stack([targets, (targets > 0).double()], 1)
    known = pairs(targets, ends)
    assert not miscount("pairs", known, 50)
    lie = torch.zeros(4, 4, dtype=torch.float64)
    lie[0, 0], lie[0, 2], lie[0, 3] = 5, 1e-200, 1
    assert miscount("errors", lie, 5)
    steep = torch.diag(torch.tensor([5.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    steep[0, 2] = steep[2, 0] = 1e-200
    steep[0, 3] = steep[3, 0] = 1
    assert miscount("errors", steep, 5)
    for place, value in (((1, 2), 1e3), ((1, 1), -1.0), ((2, 2), math.nan), ((0, 1), math.inf)):
        wrong = known.clone()
        wrong[place] = value * known.abs().max() if place == (1, 2) else value
        assert miscount("pairs", wrong, 50)


def test_a_site_whose_model_came_to_nothing_is_heard_all_the_same() -> None:
    targets = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for made in (math.nan, math.inf, 1e200):
        lost = errors(torch.tensor([1.0, made, 3.0], dtype=torch.float64), targets)
        assert not miscount("errors", lost, 3)
        assert miscount("errors", lost, 4)  # of so many samples all the same
        assert measured_rmse(lost) is None
    lost[1, 1] = math.inf
    assert miscount("errors", lost, 3)
    cells = empty("calibration", 3)
    cells[14, 1] = torch.tensor([1.0, math.nan])
    assert not miscount("calibration", cells, 1)


def measured_rmse(sums: torch.Tensor) -> float | None:
    return sites.value(sites.SITE_METRICS["rmse"], {"errors": sums.numpy()})


@pytest.mark.parametrize("sure", [math.inf, 1.5, -0.5])
def test_confidences_are_shares(sure: float) -> None:
    cells = empty("calibration", 3)
    cells[14, 1] = torch.tensor([1.0, 0.98])
    assert not miscount("calibration", cells, 1)
    cells[14, 1, 1] = sure
    assert miscount("calibration", cells, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"aca/confusion": None}, "it lacks the statistic 'aca/confusion'"),
        ({"aca/faces": torch.zeros(3)}, "it holds 'aca/faces', which nobody asked for"),
        ({"aca/confusion": torch.ones(3, 3)}, "'aca/confusion' is torch.float32 of shape [3, 3]"),
        ({"aca/confusion": torch.ones(1, 9).int()}, "of shape [1, 9]"),
        ({"aca/confusion": torch.ones(3, 3).int()}, "is no statistic of its 2 test samples"),
        ({"aca/scores": empty("scores", 3)}, "'aca/scores' is no statistic of its 2 test samples"),
    ],
)
def test_statistics_must_be_those_that_were_asked_for_and_of_all_test_samples(
    change: dict[str, torch.Tensor | None], reason: str
) -> None:
    confusion, scores = empty("confusion", 3), empty("scores", 3)
    confusion[0, 1] += 2
    scores[:, 0, 7] += 2
    found = {"aca/confusion": confusion, "aca/scores": scores, **change}
    upload = Payload(monitoring={"tested": 2, "aca": 0})
    upload.add("test_statistics", {k: t for k, t in found.items() if t is not None})
    said = mistallied(upload, ("confusion", "scores"), 3)
    assert reason in said
    assert bool(reason) == bool(said)
