"""FedLC: its oracle, what becomes of absent classes, and that τ = 0 is FedAvg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from oracle import agree, run
from torch import Tensor, nn, tensor
from world import State, World, cross_entropy, mean, networks

from fedkf.algorithms.fedlc import FedLC


def fedlc(world: World, tau: float, absent: float) -> Iterator[State]:
    """−log e^(f_y − τ n_y^−¼) / Σ_c e^(f_c − τ n_c^−¼), n_c of the client's whole data."""
    w = world.w0
    for t, active in enumerate(world.active, 1):
        local = []
        for k in active:
            counts = [int((world.data[k][1] == c).sum()) or absent for c in range(world.classes)]
            shift = tensor([tau / n**0.25 for n in counts], dtype=torch.float64)

            def loss(model: nn.Module, x: Tensor, y: Tensor, shift: Tensor = shift) -> Tensor:
                powers = torch.exp(model(x) - shift)
                return -(powers[range(len(y)), y] / powers.sum(1)).log().mean()

            local.append(world.train(w, world.batches(t, k), loss))
        w = mean([world.sizes[k] for k in active], local)
        yield w


@pytest.mark.parametrize("world", [networks(momentum=0.5), networks(norm=True, lr=0.3)])
@pytest.mark.parametrize(("tau", "absent"), [(1.0, 1e-8), (2.0, 0.5), (1.0, 9.0)])
def test_it_is_its_oracle(world: World, tau: float, absent: float) -> None:
    x, y = world.data[2]
    data = [*world.data[:2], (x, y.clamp_max(1)), *world.data[3:]]  # client 2 has no class 2
    world = world.but(data=data)
    agree(world, FedLC(tau=tau, absent=absent), fedlc(world, tau, absent))


def test_a_class_that_a_client_lacks_is_left_as_it_is() -> None:
    """Logits w for the input 1, labels 0 and 1: at w = (0, 0, 1) only the third could be wrong."""

    def made() -> nn.Module:
        model = nn.Linear(1, 3, bias=False, dtype=torch.float64)
        model.weight.data = tensor([[0.0], [0.0], [1.0]], dtype=torch.float64)
        return model

    x = torch.ones(2, 1, dtype=torch.float64)
    data = [(x, tensor([0, 1]))]
    world = World(made, cross_entropy, data, [(x[:0], tensor([0])[:0])], 3, active=[(0,)], lr=1.0)
    kept, pushed = (run(world, FedLC(tau=tau)).models[-1]["weight"] for tau in (1.0, 0.0))
    assert kept.flatten().tolist() == pytest.approx([0, 0, 1])
    assert pushed[2].item() < 0.5


def test_the_counts_stay_at_home() -> None:
    trace = run(networks(), FedLC())
    for sent in trace.uploads[1:]:
        assert all(list(upload) == ["weights", "monitoring"] for upload in sent.values())
    assert trace.kept[-1] == {}


@pytest.mark.parametrize("model", [None, Normed])
def test_without_a_shift_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedlc", model, tau=0.0)
