"""FedNTD: its oracle, its loss by hand, and that β = 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from oracle import agree
from torch import Tensor, nn, tensor
from world import State, World, mean, networks

from fedkf.algorithms.fedntd import FedNTD, not_true_loss


def fedntd(world: World, beta: float, tau: float) -> Iterator[State]:
    """Sample by sample, from the formula: sums over all classes c but y."""
    w = world.w0
    for t, active in enumerate(world.active, 1):
        teacher = world.model(w).eval()

        def loss(model: nn.Module, x: Tensor, y: Tensor, teacher: nn.Module = teacher) -> Tensor:
            logits, taught = model(x), teacher(x).detach()
            parts = []
            for i, label in enumerate(y.tolist()):
                others = [c for c in range(world.classes) if c != label]
                ours = torch.exp(logits[i, others] / tau)
                theirs = torch.exp(taught[i, others] / tau)
                q, p = ours / ours.sum(), theirs / theirs.sum()
                true = logits[i, label] - torch.exp(logits[i]).sum().log()
                parts.append(-true + beta * (p * (p / q).log()).sum())
            return torch.stack(parts).mean()

        local = [world.train(w, world.batches(t, k), loss) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        yield w


@pytest.mark.parametrize("world", [networks(momentum=0.5), networks(norm=True, lr=0.3)])
@pytest.mark.parametrize(("beta", "tau"), [(1.0, 1.0), (3.0, 0.5)])
def test_it_is_its_oracle(world: World, beta: float, tau: float) -> None:
    agree(world, FedNTD(beta=beta, tau=tau), fedntd(world, beta, tau))


def test_the_loss_worked_out_by_hand() -> None:
    # True class 1. Teacher over (0, 2): (¾, ¼); student: (½, ½). KL = ¾ ln 3/2 + ¼ ln 1/2.
    taught, logits = tensor([[math.log(3), 9.0, 0.0]]), tensor([[2.0, -7.0, 2.0]])
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert not_true_loss(logits, taught, tensor([1]), 1.0).item() == pytest.approx(expected)
    # Temperature ½ doubles the logits: teacher (9/10, 1/10).
    expected = 0.9 * math.log(1.8) + 0.1 * math.log(0.2)
    assert not_true_loss(logits, taught, tensor([1]), 0.5).item() == pytest.approx(expected)


@pytest.mark.parametrize("model", [None, Normed])
def test_without_distillation_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedntd", model, beta=0.0, tau=2.0)
