"""FedDyn: its oracle, and that many local steps end where all losses together are least."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from oracle import agree
from quadratics import Quadratics
from torch import nn, tensor
from world import State, World, mean, networks, quadratics

import fedkf
from fedkf.algorithms.feddyn import FedDyn
from fedkf.paper.operations import measure


def feddyn(world: World, alpha: float) -> Iterator[State]:
    """Algorithm 1 of the paper; K is the number of all clients."""
    w, names = world.w0, world.learned()
    h = {n: torch.zeros_like(w[n]) for n in names}
    own = {k: {n: torch.zeros_like(w[n]) for n in names} for k in range(world.clients)}
    for t, active in enumerate(world.active, 1):
        local = {}
        for k in active:

            def pull(model: nn.Module, g: State = own[k], w: State = w) -> list[torch.Tensor]:
                return [-g[n] + alpha * (p.detach() - w[n]) for n, p in model.named_parameters()]

            local[k] = world.train(w, world.batches(t, k), add=pull)
            own[k] = {n: own[k][n] - alpha * (local[k][n] - w[n]) for n in names}
        moved = {n: torch.stack([local[k][n] - w[n] for k in active]).sum(0) for n in names}
        h = {n: h[n] - alpha / world.clients * moved[n] for n in names}
        new = mean([world.sizes[k] for k in active], list(local.values()))
        alike = mean([1] * len(active), list(local.values()))
        w = {**new, **{n: alike[n] - h[n] / alpha for n in names}}
        yield w


@pytest.mark.parametrize(
    "world",
    [
        quadratics(),
        quadratics(momentum=0.5, weight_decay=0.05, epochs=3),
        networks(norm=True, lr=0.05),
    ],
)
@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_it_is_its_oracle(world: World, alpha: float) -> None:
    agree(world, FedDyn(alpha=alpha), feddyn(world, alpha))


def test_with_many_local_steps_it_finds_the_optimum_that_fedavg_misses(tmp_path: Path) -> None:
    curves = [tensor([[4.0, 0.0], [0.0, 0.2]]), tensor([[0.2, 0.0], [0.0, 4.0]])]
    federation = Quadratics(curves, [tensor([1.0, -3.0]), tensor([-3.0, 1.0])])
    best = federation.optimum([0.5, 0.5])
    drifted = federation.run(fedkf.FedAvg(), tmp_path, 25, lr=0.1, local_epochs=20)
    settled = federation.run(FedDyn(alpha=1.0), tmp_path, 25, lr=0.1, local_epochs=20)
    assert (drifted - best).norm().item() > 0.3
    assert (settled - best).norm().item() < 0.01


def test_it_sends_what_fedavg_sends() -> None:
    row = measure(FedDyn())
    assert (row["bytes_down"], row["bytes_up"]) == (1, 1)
    assert row["discloses"] == ["weights"]
