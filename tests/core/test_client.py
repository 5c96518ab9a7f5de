"""Batches, losses and privacy on the client's side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings

import fedkf
from fedkf.core.algorithm import option
from fedkf.core.batches import batch_indices
from fedkf.core.client import Client, Undeclared, refuse_undeclared
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Server
from fedkf.core.task import Training


def indices(size: int, **training: int | None) -> list[list[int]]:
    batches = batch_indices(size, Training(**training), torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    return [batch.tolist() for batch in batches]


def test_own_batches_are_split_once_and_every_epoch_repeats_the_split() -> None:
    batches = indices(10, local_epochs=3, batch_size=4)
    assert [len(b) for b in batches] == [4, 4, 2] * 3
    assert batches[:3] == batches[3:6] == batches[6:]
    assert sorted(k for batch in batches[:3] for k in batch) == list(range(10))


def test_a_given_number_of_steps_comes_from_a_reshuffled_stream_without_partial_batches() -> None:
    batches = indices(10, local_epochs=2, batch_size=4, steps_per_epoch=3)
    assert [len(b) for b in batches] == [4] * 6
    for first, second in (batches[0:2], batches[2:4], batches[4:6]):
        assert not set(first) & set(second)
    assert batches[0:2] != batches[2:4]


def test_a_client_smaller_than_a_batch_uses_what_it_has() -> None:
    assert [sorted(b) for b in indices(3, batch_size=8, steps_per_epoch=2)] == [[0, 1, 2]] * 2
    assert [sorted(b) for b in indices(3, batch_size=8)] == [[0, 1, 2]]
    assert indices(1, batch_size=8, steps_per_epoch=3) == [[0]] * 3


def test_an_undeclared_kind_never_leaves_the_client() -> None:
    @dataclass(frozen=True)
    class Open(fedkf.Algorithm):
        name: ClassVar[str] = "open"
        discloses: ClassVar[tuple[str, ...]] = ("label_counts",)

    counts = Payload(label_counts={"n": torch.ones(3)})
    refuse_undeclared(Open(), counts)
    with pytest.raises(Undeclared, match="fedavg would send 'label_counts'"):
        refuse_undeclared(fedkf.FedAvg(), counts)
    with pytest.raises(Undeclared, match="of kind 'private'"):
        refuse_undeclared(Open(), Payload(images={"x": torch.ones(3)}))


@dataclass(frozen=True)
class Curious(fedkf.FedAvg):
    """Asks clients for a method that it did not declare."""

    name: ClassVar[str] = "curious"
    asks: str = option("peek", "what it asks for")

    def peek(self, client: Client, down: Payload) -> Payload:
        return Payload(monitoring={"size": client.size})

    def finish(self, server: Server, readouts: dict[str, Weights]) -> dict[str, Weights]:
        server.exchange(self.asks, server.active, Payload())
        return readouts


@dataclass(frozen=True)
class Declared(Curious):
    client_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **fedkf.FedAvg.client_steps,
        "peek": (),
    }


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("step", ["peek", "aggregate", "create", "__init__"])
def test_only_steps_that_an_algorithm_declares_are_run(
    settings: Settings, workers: int, step: str
) -> None:
    with pytest.raises(fedkf.UserError, match=f"curious has no step '{step}' for clients"):
        fedkf.run(settings, algorithm=Curious(asks=step), workers=workers, rounds=1)


def test_a_declared_step_is_run(settings: Settings) -> None:
    assert fedkf.run(settings, algorithm=Declared(), rounds=1).summary["rounds"] == 1


class Halved(torch.nn.Module):
    """Computes in half precision, whatever comes."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(256, 3, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.flatten(1).bfloat16())  # type: ignore[no-any-return]


def test_the_mean_of_many_losses_in_half_precision_is_their_mean(settings: Settings) -> None:
    still: dict[str, Any] = {"algorithm": "fedavg", "lr": 1e-12, "rounds": 1}
    few, many = (
        fedkf.run(settings, model=Halved, **still, local_epochs=epochs).history[0]["losses"]["loss"]
        for epochs in (1, 200)
    )
    assert many == pytest.approx(few, rel=1e-3)
