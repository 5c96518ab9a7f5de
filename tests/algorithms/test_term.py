"""TERM: its oracle, its fixed point, and that t = 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from helpers import server, upload
from oracle import agree
from quadratics import Quadratics
from torch import nn, tensor
from world import State, World, mean, networks, quadratics

from fedkf.algorithms.term import TERM
from fedkf.core.payload import Payload
from fedkf.paper.operations import measure


def term(world: World, t: float) -> Iterator[State]:
    w = world.w0
    for number, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(number, k)) for k in active]
        tilted = [world.sizes[k] * math.exp(t * world.whole_loss(w, k)) for k in active]
        w = mean(tilted, local)
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.5, weight_decay=0.05), networks(norm=True, lr=0.3)],
)
@pytest.mark.parametrize("t", [1.0, -0.7])
def test_it_is_its_oracle(world: World, t: float) -> None:
    agree(world, TERM(t=t), term(world, t))


def test_a_round_worked_out_by_hand() -> None:
    # sizes 3 and 1, losses 0 and ln 6, t = 1: weights 3 and 6.
    uploads = [
        upload(0, 3, [0.0], local_loss={"value": 0.0}),
        upload(1, 1, [9.0], local_loss={"value": math.log(6)}),
    ]
    new = TERM(t=1.0).aggregate(server(), Payload(weights={"w": tensor([5.0])}), uploads)
    assert new["weights"]["w"].item() == pytest.approx(6.0)


def test_a_high_loss_does_not_overflow() -> None:
    uploads = [
        upload(0, 1, [0.0], local_loss={"value": 2.0}),
        upload(1, 1, [8.0], local_loss={"value": 1e5}),
    ]
    new = TERM(t=100.0).aggregate(server(), Payload(weights={"w": tensor([5.0])}), uploads)
    assert new["weights"]["w"].item() == 8.0


def test_it_ends_where_the_tilted_loss_is_least(tmp_path: Path) -> None:
    """Two clients of one, at 0 with size 3 and at 4 with size 1: the mean is 1, the tilt beyond."""
    federation = Quadratics([torch.eye(1)] * 2, [tensor([0.0]), tensor([4.0])], sizes=[3, 1])
    found = federation.run(TERM(t=0.5), tmp_path, 60, lr=0.1).item()
    points = torch.linspace(0, 4, 40001, dtype=torch.float64)
    tilted = 0.75 * torch.exp(0.5 * points**2 / 2) + 0.25 * torch.exp(0.5 * (points - 4) ** 2 / 2)
    assert found == pytest.approx(points[tilted.argmin()].item(), abs=2e-3)
    assert found > 1.1


def test_the_tilt_is_its_authors_unless_given() -> None:
    # sizes 1 and 1, losses 0 and 10 ln 3: e^(0.1 · 10 ln 3) = 3.
    uploads = [
        upload(0, 1, [0.0], local_loss={"value": 0.0}),
        upload(1, 1, [8.0], local_loss={"value": 10 * math.log(3)}),
    ]
    new = TERM().aggregate(server(), Payload(weights={"w": tensor([5.0])}), uploads)
    assert new["weights"]["w"].item() == pytest.approx(6.0)


@pytest.mark.parametrize("model", [None, Normed])
def test_without_a_tilt_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "term", model, t=0.0)


def test_losses_are_what_it_discloses() -> None:
    row = measure(TERM())
    assert row["discloses"] == ["weights", "local_loss"]
    assert row["passes_outside"]["classifier_forward"] == 1
