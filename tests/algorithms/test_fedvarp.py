"""FedVARP: its oracle, rounds by hand, and where it is FedAvg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import Settings
from helpers import close
from oracle import agree
from quadratics import Quadratics
from torch import tensor
from world import State, World, mean, networks, quadratics

import fedkf
from fedkf.algorithms.fedvarp import FedVARP


def fedvarp(world: World, server_lr: float, beta: float = 1.0) -> Iterator[State]:
    w, names = world.w0, world.learned()
    old = {k: {n: torch.zeros_like(w[n]) for n in names} for k in range(world.clients)}
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k)) for k in active]
        sizes = [world.sizes[k] for k in active]
        fresh = [{n: w[n] - m[n] for n in names} for m in local]
        apart = [
            {n: g[n] - beta * old[k][n] for n in names} for k, g in zip(active, fresh, strict=True)
        ]
        first, all_old = mean(sizes, apart), mean(world.sizes, list(old.values()))
        step = {n: first[n] + beta * all_old[n] for n in names}
        w = {**mean(sizes, local), **{n: w[n] - server_lr * step[n] for n in names}}
        old |= dict(zip(active, fresh, strict=True))
        yield w


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.5, weight_decay=0.05), networks(norm=True)],
)
@pytest.mark.parametrize("server_lr", [1.0, 0.6])
def test_it_is_its_oracle(world: World, server_lr: float) -> None:
    agree(world, FedVARP(server_lr=server_lr), fedvarp(world, server_lr))


def test_three_rounds_worked_out_by_hand(tmp_path: Path) -> None:
    # f_k = ½ (w − c_k)², c = (2, 6), one step with η = ½: Δ_k = ½ (w − c_k); sizes 1 and 1.
    # Round 1, client 0: Δ₀ = −1, y = (0, 0): w = 1. Round 2, client 1: Δ₁ = −2.5, mean y = −½:
    # w = 1 + 2.5 + ½ = 4. Round 3, client 0: Δ₀ = 1, y₀ = −1, mean y = −1.75: w = 4 − (2 − 1.75).
    federation = Quadratics([torch.eye(1)] * 2, [tensor([2.0]), tensor([6.0])])
    federation.run(FedVARP(), tmp_path, 3, active=[[0], [1], [0]], lr=0.5)
    assert [w.item() for w in federation.history] == pytest.approx([0, 1, 4, 3.75])


def test_its_first_round_is_fedavg_byte_for_byte(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="fedvarp", rounds=1).weights["aca"]
    plain = fedkf.run(settings, algorithm="fedavg", rounds=1).weights["aca"]
    assert all(torch.equal(ours[name], plain[name]) for name in plain)


def test_with_everybody_active_it_is_fedavg(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="fedvarp", fraction=1.0).weights
    assert close(ours["aca"], fedkf.run(settings, algorithm="fedavg", fraction=1.0).weights["aca"])


def test_under_a_schedule_old_updates_count_as_if_made_at_the_present_rate(tmp_path: Path) -> None:
    # Round 2, client 1 at a tenth of the rate: Δ₁ = −0.25, and of the mean y = −½ a tenth counts.
    federation = Quadratics([torch.eye(1)] * 2, [tensor([2.0]), tensor([6.0])])
    federation.run(FedVARP(), tmp_path, 2, active=[[0], [1]], lr=0.5, schedule="step")
    assert [w.item() for w in federation.history] == pytest.approx([0, 1, 1 + 0.25 + 0.05])
