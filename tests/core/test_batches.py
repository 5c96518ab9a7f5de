"""A client's batches: their purposes, the steps that a run prescribes, and batch norm."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fedkf.core.client import Client, ClientData
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training


def started(size: int, norm: bool = False, round: int = 1, **training: Any) -> Client:
    """A client whose samples are their own numbers, with a model that is ready to train."""
    x, y = torch.arange(float(size)).view(-1, 1), torch.zeros(size, dtype=torch.long)
    layers = [nn.Linear(1, 2), nn.BatchNorm1d(2)] if norm else [nn.Linear(1, 2)]
    settings = Training(batch_size=4, **training)
    task = Task(lambda: nn.Sequential(*layers), (1,), 2, settings, Streams(0))
    client = Client(0, round, ClientData(x, y, x[:0], y[:0]), task)
    client.start(task.initial_weights)
    return client


def numbers(client: Client, purpose: str = "batches", own: bool = False) -> list[list[float]]:
    return [x.flatten().tolist() for x, _ in client.batches(purpose, own)]


def test_every_epoch_repeats_one_split_of_all_samples() -> None:
    found = numbers(started(10, local_epochs=2))
    assert [len(batch) for batch in found] == [4, 4, 2, 4, 4, 2]
    assert found[:3] == found[3:]
    order = [number for batch in found[:3] for number in batch]
    assert sorted(order) == list(range(10))
    assert order != sorted(order)


def test_purposes_and_rounds_have_batches_of_their_own() -> None:
    client = started(10)
    assert numbers(client) == numbers(client)
    assert numbers(client) != numbers(client, "batches of the personal model")
    assert numbers(client) != numbers(started(10, round=2))


def test_prescribed_steps_come_from_full_batches_shuffled_anew() -> None:
    found = numbers(started(10, local_epochs=2, steps_per_epoch=3))
    assert [len(batch) for batch in found] == [4] * 6
    assert len({tuple(batch) for batch in found}) == 6
    assert [len(batch) for batch in numbers(started(3, steps_per_epoch=2))] == [3, 3]


def test_own_batches_are_whole_epochs_whatever_is_prescribed() -> None:
    client = started(10, steps_per_epoch=1)
    assert [len(batch) for batch in numbers(client)] == [4]
    assert [len(batch) for batch in numbers(client, own=True)] == [4, 4, 2]


@pytest.mark.parametrize(("size", "with_norm"), [(9, [4, 4]), (8, [4, 4]), (1, [2])])
def test_batch_norm_is_never_given_a_single_sample(size: int, with_norm: list[int]) -> None:
    assert [len(batch) for batch in numbers(started(size, norm=True))] == with_norm
    plain = [len(batch) for batch in numbers(started(size))]
    assert sum(plain) == size
