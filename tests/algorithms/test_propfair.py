"""PropFair: its oracle on both sides of ε, a step by hand, and FedAvg as the limit of a large M."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from oracle import agree, run
from quadratics import Quadratics
from torch import Tensor, nn, tensor
from world import State, World, mean, networks, quadratics

import fedkf
from fedkf.algorithms.propfair import PropFair


def propfair(world: World, baseline: float, epsilon: float) -> Iterator[State]:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        gain = baseline - world.loss(model, x, y)
        if gain.item() >= epsilon:
            return -torch.log(gain)
        return -(math.log(epsilon) + (gain - epsilon) / epsilon)

    w = world.w0
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k), loss) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.5, weight_decay=0.05), networks(norm=True, lr=0.3)],
)
@pytest.mark.parametrize(("baseline", "epsilon"), [(5.0, 0.2), (1.2, 0.5)])
def test_it_is_its_oracle(world: World, baseline: float, epsilon: float) -> None:
    algorithm = PropFair(baseline=baseline, epsilon=epsilon)
    agree(world, algorithm, propfair(world, baseline, epsilon))


def test_the_tangent_continues_the_logarithm() -> None:
    algorithm = PropFair(epsilon=0.5)
    gains = tensor([2.0, 0.5, 0.25, -1.0], dtype=torch.float64, requires_grad=True)
    values = algorithm.utility(gains)
    at = math.log(0.5)
    assert values.tolist() == pytest.approx([math.log(2), at, at - 0.5, at - 3])
    (slopes,) = torch.autograd.grad(values.sum(), gains)
    assert slopes.tolist() == pytest.approx([0.5, 2, 2, 2])


def test_a_step_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½ (w − 2)² = 2 at w = 0, M = 6: the gradient −2 counts 1/(6 − 2); η = ½: w = ¼.
    federation = Quadratics([torch.eye(1)], [tensor([2.0])])
    w = federation.run(PropFair(baseline=6.0), tmp_path, 1, lr=0.5)
    assert w.item() == pytest.approx(0.25)


def test_a_large_baseline_with_a_rate_to_match_comes_near_fedavg() -> None:
    """−log(M − F) = F/M + … : there is no setting that is FedAvg, only a limit."""
    world = networks(momentum=0.5)
    plain = run(world, fedkf.FedAvg()).models[-1]
    away = []
    for baseline in (1e3, 1e6):
        ours = run(world.but(lr=world.lr * baseline), PropFair(baseline=baseline)).models[-1]
        away.append(max(float((ours[n] - plain[n]).abs().max()) for n in plain))
    assert away[1] < 1e-4 < away[0] / 2
    assert away[0] / away[1] == pytest.approx(1e3, rel=0.1)


def test_a_client_with_a_high_loss_counts_more(tmp_path: Path) -> None:
    """The mean of the centres 0 (three clients) and 4 (one) is 1; the far one draws it beyond."""
    federation = Quadratics([torch.eye(1)] * 2, [tensor([0.0]), tensor([4.0])], sizes=[3, 1])
    w = federation.run(PropFair(baseline=9.0), tmp_path, 30, lr=1.0)
    assert w.item() > 1.2
