"""FedSAM: its oracle, a step by hand, and that ρ = 0 is FedAvg."""

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

from fedkf.algorithms.fedsam import FedSAM
from fedkf.paper.operations import measure


def sharpness_aware(world: World, start: State, round: int, client: int, rho: float) -> State:
    """Parameters are moved, a gradient taken, and moved back, before the step."""
    model = world.model(start)
    parameters = list(model.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    for x, y in world.batches(round, client):
        before = copy(model)
        up = torch.autograd.grad(world.loss(model, x, y), parameters)
        model.load_state_dict(before)  # the first pass leaves no trace in batch norm
        length = float(torch.cat([g.flatten() for g in up]).norm())
        with torch.no_grad():
            for p, g in zip(parameters, up, strict=True):
                p.add_(rho * g / length)
        down = torch.autograd.grad(world.loss(model, x, y), parameters)
        with torch.no_grad():
            for i, (name, p) in enumerate(model.named_parameters()):
                p.copy_(before[name])
                velocity[i] = world.momentum * velocity[i] + down[i] + world.weight_decay * p
                p.sub_(world.lr * velocity[i])
    return copy(model)


def fedsam(world: World, rho: float) -> Iterator[State]:
    w = world.w0
    for t, active in enumerate(world.active, 1):
        local = [sharpness_aware(world, w, t, k, rho) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.8, weight_decay=0.05), networks(norm=True, lr=0.3)],
)
@pytest.mark.parametrize("rho", [0.05, 0.7])
def test_it_is_its_oracle(world: World, rho: float) -> None:
    agree(world, FedSAM(rho=rho), fedsam(world, rho))


def test_a_step_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½ (4 w₁² + w₂²) at (1, 3): g = (4, 3), ‖g‖ = 5; ρ = 1: at (1.8, 3.6) g = (7.2, 3.6).
    federation = Quadratics([tensor([[4.0, 0.0], [0.0, 1.0]])], [tensor([0.0, 0.0])])
    w = federation.run(FedSAM(rho=1.0), tmp_path, 1, start=tensor([1.0, 3.0]), lr=0.1)
    assert w.tolist() == pytest.approx([0.28, 2.64])


def test_a_client_at_its_optimum_stays_there(tmp_path: Path) -> None:
    federation = Quadratics([torch.eye(2)], [tensor([1.0, 2.0])])
    w = federation.run(FedSAM(rho=0.5), tmp_path, 2, start=tensor([1.0, 2.0]), lr=0.1)
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("model", [None, Normed])
def test_without_a_reach_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedsam", model, rho=0.0)


def test_it_costs_twice_fedavgs_passes() -> None:
    assert list(measure(FedSAM())["passes"].values()) == [2, 2, 0, 0]
