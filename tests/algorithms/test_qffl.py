"""q-FFL: q = 0 is the plain mean, a step by hand, and accuracies that draw together."""

from __future__ import annotations

import pytest
import torch
from conftest import Settings
from helpers import Unweighted, close, score, server, upload
from torch import nn, tensor

import fedkf
from fedkf.algorithms.qffl import QFFL
from fedkf.core.arithmetic import powers
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training


def test_without_preference_it_is_the_plain_mean(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="qffl", q=0.0).weights
    assert close(ours["aca"], fedkf.run(settings, algorithm=Unweighted()).weights["aca"])


def test_a_step_worked_out_by_hand() -> None:
    # L = 2; g₁ = 2·(1, 0), g₂ = 2·(0, 1); F = (4, 1); q = 1:
    # Σ F g = (8, 2); h₁ = 1·1·4 + 2·4 = 12, h₂ = 1·1·4 + 2·1 = 6; w = 1 − (8, 2) / 18
    uploads = [
        upload(0, 9, [0.0, 1.0], local_loss={"value": 4.0}),
        upload(1, 1, [1.0, 0.0], local_loss={"value": 1.0}),
    ]
    state = Payload(weights={"w": tensor([1.0, 1.0])})
    new = QFFL(q=1.0).aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([1 - 8 / 18, 1 - 2 / 18])


@pytest.mark.parametrize("q", [0.1, 5.0, 50.0, 1000.0])
@pytest.mark.parametrize("loss", [1e-9, 1.0, 1e9])
def test_a_loss_of_any_size_leaves_a_model(q: float, loss: float) -> None:
    uploads = [
        upload(0, 1, [0.0, 1.0], local_loss={"value": loss}),
        upload(1, 1, [1.0, 0.0], local_loss={"value": 0.5 * loss}),
    ]
    state = Payload(weights={"w": tensor([1.0, 1.0])})
    new = QFFL(q=q).aggregate(server(), state, uploads)["weights"]["w"]
    assert ((new >= 0) & (new <= 1)).all()


def test_the_unit_of_losses_changes_nothing() -> None:
    uploads = [
        upload(0, 1, [0.0, 1.0], local_loss={"value": 2.0}),
        upload(1, 1, [1.0, 0.0], local_loss={"value": 1.9}),
    ]
    state = Payload(weights={"w": tensor([1.0, 1.0])})
    below, above = (QFFL(q=q).aggregate(server(), state, uploads) for q in (99.65, 99.66))
    assert close(below["weights"], {"w": above["weights"]["w"]})
    assert [powers([2.0, 1.9], q)[0][0] for q in (99.65, 99.66)] == [2.0**99.65, 1.0]


def test_the_variance_of_accuracies_falls_as_q_grows() -> None:
    variances = [score("qffl", q=q)["fm"] for q in (0.0, 0.5, 1.0)]
    assert variances[0] > 1.2 * variances[1] > 1.4 * variances[2]


def test_the_released_program_trains_whole_epochs_whatever_the_steps() -> None:
    """A client of ten has three batches of four; the run prescribes one step."""
    settings = QFFL.fidelity["released"]
    assert settings == {"own_epochs": True}
    for own, steps in ((False, 1), (True, 3)):
        x, y = torch.ones(10, 1), torch.zeros(10, dtype=torch.long)
        training = Training(batch_size=4, steps_per_epoch=1)
        task = Task(lambda: nn.Linear(1, 2), (1,), 2, training, Streams(0))
        client = Client(0, 1, ClientData(x, y, x[:0], y[:0]), task)
        QFFL(own_epochs=own).local_update(client, Payload(weights=task.initial_weights))
        assert client.steps == steps
