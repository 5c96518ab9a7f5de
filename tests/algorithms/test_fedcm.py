"""FedCM: its oracle, two rounds by hand, and that α = 1 is FedAvg."""

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
from world import State, World, mean, networks, quadratics

from fedkf.algorithms.fedcm import FedCM
from fedkf.paper.operations import measure


def whole_steps(count: int, momentum: float) -> float:
    """How many plain steps a constant gradient would have made: step i goes on in later ones."""
    return sum(momentum**later for i in range(count) for later in range(count - i))


def fedcm(world: World, alpha: float, server_lr: float) -> Iterator[State]:
    w, names = world.w0, world.learned()
    delta = {n: torch.zeros_like(w[n]) for n in names}
    for t, active in enumerate(world.active, 1):
        local, rates = [], []
        for k in active:
            batches = world.batches(t, k)

            def mixed(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return alpha * world.loss(m, x, y)

            def carried(model: nn.Module, delta: State = delta) -> list[torch.Tensor]:
                return [(1 - alpha) * delta[n] for n, _ in model.named_parameters()]

            local.append(world.train(w, batches, mixed, carried))
            rates.append(world.lr * whole_steps(len(batches), world.momentum))
        sizes = [world.sizes[k] for k in active]
        moves = [
            {n: (w[n] - m[n]) / rate for n in names} for m, rate in zip(local, rates, strict=True)
        ]
        delta = mean(sizes, moves)
        middle = mean(sizes, local)
        w = {**middle, **{n: w[n] + server_lr * (middle[n] - w[n]) for n in names}}
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.8, weight_decay=0.05), networks(norm=True, lr=0.3)],
)
@pytest.mark.parametrize(("alpha", "server_lr"), [(0.1, 1.0), (0.6, 0.7)])
def test_it_is_its_oracle(world: World, alpha: float, server_lr: float) -> None:
    algorithm = FedCM(alpha=alpha, server_lr=server_lr)
    agree(world, algorithm, fedcm(world, alpha, server_lr))


def test_two_rounds_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½ (w − 8)², w = 0, η = ½, α = ¼, one step: g = −8, v = ¼·(−8) + 0 = −2, w = 1, Δ = −2.
    # Then v = ¼·(−7) + ¾·(−2) = −3.25, w = 1 + 1.625.
    federation = Quadratics([torch.eye(1)], [tensor([8.0])])
    federation.run(FedCM(alpha=0.25), tmp_path, 2, lr=0.5)
    assert [w.item() for w in federation.history] == pytest.approx([0, 1, 2.625])


@pytest.mark.parametrize("model", [None, Normed])
def test_without_the_old_direction_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedcm", model, alpha=1.0)


def test_it_sends_a_second_model_down_only() -> None:
    row = measure(FedCM())
    assert (row["bytes_down"], row["bytes_up"]) == (2, 1)
