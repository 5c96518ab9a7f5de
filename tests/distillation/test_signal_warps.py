"""Warps of a client's own signals and vectors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fedkf.core.samples import Sampling
from fedkf.distillation import samples_for
from fedkf.distillation.signal_warps import SignalWarp, VectorWarp, around


def client_with(inputs: torch.Tensor, count: int = 64) -> Any:
    """A client that holds these inputs, as far as a source of samples sees one."""
    task = SimpleNamespace(
        part=lambda kind: Sampling(VectorWarp, count), shape=inputs.shape[1:], device="cpu"
    )
    data = SimpleNamespace(images=inputs)
    return SimpleNamespace(
        data=data, task=task, random=lambda purpose: torch.Generator().manual_seed(0)
    )


def test_a_signal_is_read_between_its_steps_and_around_its_end() -> None:
    x = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    times = torch.tensor([[-1.0, 0.5, 2.25, 3.5]])
    assert around(x, times).tolist() == [[[3.0, 0.5, 2.25, 1.5]]]
    assert torch.equal(around(x, torch.arange(4.0)[None]), x)


@pytest.mark.parametrize("length", [1, 2, 7, 128])
@pytest.mark.parametrize("channels", [1, 3])
def test_signals_of_any_size_are_warped(channels: int, length: int) -> None:
    made = SignalWarp(client_with(torch.randn(5, channels, length))).draw()
    assert made.shape == (64, channels, length)
    assert made.isfinite().all()


def test_time_goes_forward_at_a_speed_that_varies_once_around() -> None:
    warp = SignalWarp(client_with(torch.randn(5, 1, 50)))
    steps = warp.times(50).diff(dim=1)
    assert (steps > 0).all()
    assert steps.sum(1).tolist() == pytest.approx([49.0] * 64, rel=1e-4)
    assert (steps.amax(1) / steps.amin(1)).median() > 1.3


def test_without_its_changes_a_warp_mixes_the_clients_own_windows() -> None:
    class Still(SignalWarp):
        jitter = scaling = shift = warp = 0.0

    own = torch.stack([torch.zeros(2, 8), torch.ones(2, 8)])
    made = Still(client_with(own)).draw()
    assert made.amin() >= 0
    assert made.amax() <= 1
    assert made.std((1, 2)).amax() < 1e-6
    assert 0.1 < made.mean() < 0.9


def test_noise_is_as_large_as_an_entry_varies_at_the_client() -> None:
    random = torch.Generator().manual_seed(1)
    own = torch.stack([torch.full((200,), 7.0), 1000 * torch.randn(200, generator=random)], dim=1)
    made = VectorWarp(client_with(own, 400)).draw()
    assert torch.equal(made[:, 0], torch.full((400,), 7.0))
    assert 500 < made[:, 1].std() < 1200


def test_a_client_with_one_row_distils_on_it() -> None:
    made = VectorWarp(client_with(torch.tensor([[1.0, 2.0]]), 3)).draw()
    assert made.tolist() == [[1.0, 2.0]] * 3


@pytest.mark.parametrize(
    ("shape", "ends"), [((1, 8, 8), "warp"), ((3, 50), "SignalWarp"), ((9,), "VectorWarp")]
)
def test_what_warp_means_depends_on_the_inputs(shape: tuple[int, ...], ends: str) -> None:
    assert samples_for("warp", shape).endswith(ends)
    assert samples_for("noise", shape) == "noise"
