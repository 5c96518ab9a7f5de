"""Random streams."""

from __future__ import annotations

import pytest
import torch

from fedkf.core.random import GlobalStream, Streams


def test_a_stream_depends_on_seed_purpose_round_and_client_and_on_nothing_else() -> None:
    base = (0, "batches", 3, 7)

    def first(seed: int, purpose: str, round: int, client: int) -> float:
        return torch.rand(1, generator=Streams(seed).torch_generator(purpose, round, client)).item()

    assert first(*base) == first(*base)
    others = [(1, "batches", 3, 7), (0, "noise", 3, 7), (0, "batches", 4, 7), (0, "batches", 3, 8)]
    assert len({first(*base), *(first(*other) for other in others)}) == 5


def test_the_global_stream_neither_disturbs_nor_is_disturbed() -> None:
    torch.manual_seed(1)
    expected_outside = torch.rand(4)
    stream = GlobalStream(5, "cpu")
    with stream.active():
        expected_inside = torch.rand(4)

    torch.manual_seed(1)
    stream = GlobalStream(5, "cpu")
    outside, inside = [], []
    for _ in range(4):
        outside.append(torch.rand(1))
        with stream.active():
            inside.append(torch.rand(1))
    assert torch.equal(torch.cat(outside), expected_outside)
    assert torch.equal(torch.cat(inside), expected_inside)


def test_a_stream_of_the_processor_leaves_those_of_gpus_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    with GlobalStream(5, "cpu").active():
        drawn = torch.rand(4)
    assert seeded == []
    torch.manual_seed(5)
    assert seeded == [5]  # as PyTorch's own function does
    assert torch.equal(torch.rand(4), drawn)
