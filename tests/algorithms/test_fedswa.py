"""FedSWA: its oracle, a round by hand, and that ρ = α = 1 is FedAvg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from oracle import agree
from quadratics import Quadratics
from torch import nn, tensor
from world import State, World, copy, mean, networks, quadratics

from fedkf.algorithms.fedswa import FedSWA
from fedkf.paper.operations import measure


def slowing(world: World, start: State, round: int, client: int, rho: float) -> State:
    model = world.model(start)
    parameters = list(model.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    batches = world.batches(round, client)
    for i, (x, y) in enumerate(batches):
        done = i / len(batches)
        rate = world.lr * (1 - done) + rho * world.lr * done
        gradients = torch.autograd.grad(world.loss(model, x, y), parameters)
        with torch.no_grad():
            for j, p in enumerate(parameters):
                g = gradients[j] + world.weight_decay * p
                velocity[j] = world.momentum * velocity[j] + g
                p.sub_(rate * velocity[j])
    return copy(model)


def fedswa(world: World, rho: float, alpha: float) -> Iterator[State]:
    w, names = world.w0, world.learned()
    for t, active in enumerate(world.active, 1):
        local = [slowing(world, w, t, k, rho) for k in active]
        middle = mean([world.sizes[k] for k in active], local)
        w = {**middle, **{n: (1 - alpha) * w[n] + alpha * middle[n] for n in names}}
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.8, weight_decay=0.05), networks(norm=True)],
)
@pytest.mark.parametrize(("rho", "alpha"), [(0.1, 1.5), (0.5, 0.4)])
def test_it_is_its_oracle(world: World, rho: float, alpha: float) -> None:
    agree(world, FedSWA(rho=rho, alpha=alpha), fedswa(world, rho, alpha))


def test_a_round_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½ (w − 8)², two epochs of one batch, η = ½, ρ = 0: rates ½ and ¼. w: 0 → 4 → 5.
    # α = ½: w = 2.5.
    federation = Quadratics([torch.eye(1)], [tensor([8.0])])
    w = federation.run(FedSWA(rho=0.0, alpha=0.5), tmp_path, 1, lr=0.5, local_epochs=2)
    assert w.item() == pytest.approx(2.5)


@pytest.mark.parametrize("model", [None, Normed])
def test_with_a_steady_rate_and_no_average_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedswa", model, rho=1.0, alpha=1.0)


def test_it_costs_what_fedavg_costs() -> None:
    assert list(measure(FedSWA())["passes"].values()) == [1, 1, 0, 0]
