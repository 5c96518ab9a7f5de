"""FedStale: its oracle, and its ends: β = 0 is FedAvg, β = 1 FedVARP, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from oracle import agree, run, same
from test_fedvarp import fedvarp
from torch import nn
from world import World, networks, quadratics

import fedkf
from fedkf.algorithms.fedstale import FedStale
from fedkf.algorithms.fedvarp import FedVARP


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.5, weight_decay=0.05), networks(norm=True)],
)
@pytest.mark.parametrize(("beta", "server_lr"), [(0.5, 1.0), (0.2, 0.6)])
def test_it_is_its_oracle(world: World, beta: float, server_lr: float) -> None:
    agree(world, FedStale(beta=beta, server_lr=server_lr), fedvarp(world, server_lr, beta))


def test_whole_stale_updates_make_fedvarp_byte_for_byte() -> None:
    ours, theirs = run(networks(), FedStale(beta=1.0)), run(networks(), FedVARP())
    same(ours.models, [m for m in theirs.models if m], tolerance=0)


@pytest.mark.parametrize("model", [None, Normed])
def test_without_stale_updates_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedstale", model, beta=0.0)


def test_between_its_ends_it_is_between_fedavg_and_fedvarp() -> None:
    """The second round's model is a straight line in β."""
    world = quadratics(active=[(0, 2, 3), (1, 3, 4)])
    plain, half, whole = (
        run(world, algorithm).models[-1]["w"]
        for algorithm in (fedkf.FedAvg(), FedStale(beta=0.5), FedVARP())
    )
    assert torch.allclose(half, (plain + whole) / 2, atol=1e-12)
    assert not torch.allclose(plain, whole, atol=1e-3)
