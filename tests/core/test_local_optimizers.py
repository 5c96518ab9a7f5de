"""Local optimizers, schedules, clipping and precision."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings, make_client, model_bytes
from torch import nn

import fedkf
from fedkf.algorithms.ccvr import CCVR
from fedkf.core.algorithm import starting_loss
from fedkf.core.errors import UserError
from fedkf.core.evaluation import outputs
from fedkf.core.optimizers import factor, make_optimizer
from fedkf.core.payload import Payload
from fedkf.core.task import Training
from fedkf.models.personal import Personal
from fedkf.runs.config import resolve


def step_of(training: Training, round: int = 1, gradient: float = 3.0) -> float:
    """How far the first step moves a weight at 1 that has this gradient."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = make_optimizer(training, model, round)
    model.weight.grad = torch.tensor([[gradient]])
    optimizer.step()
    return 1 - model.weight.item()


def test_first_steps_are_those_of_the_books() -> None:
    assert step_of(Training(lr=0.1)) == pytest.approx(0.3)
    assert step_of(Training(lr=0.1, optimizer="adam")) == pytest.approx(0.1)  # the sign alone
    decayed = Training(lr=0.1, optimizer="adamw", weight_decay=0.5)
    assert step_of(decayed) == pytest.approx(0.1 + 0.1 * 0.5)  # decay apart from the gradient
    coupled = Training(lr=0.1, optimizer="adam", weight_decay=0.5)
    assert step_of(coupled) == pytest.approx(0.1)
    late = Training(lr=0.1, schedule="linear", rounds=4)
    assert step_of(late, round=4) == pytest.approx(0.3 / 4)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "step"])
def test_a_schedule_begins_whole_never_grows_and_never_ends_at_nothing(schedule: str) -> None:
    found = [factor(schedule, t, 10) for t in range(1, 11)]
    assert found[0] == 1.0
    assert found == sorted(found, reverse=True)
    assert found[-1] > 0


def test_clipping_bounds_each_step(settings: Settings) -> None:
    """One client, one epoch of one batch: the model moves by η times the clipped gradient."""
    common: dict[str, Any] = dict(algorithm="fedavg", rounds=1, local_epochs=1, batch_size=999)
    common |= {"lr": 0.5, "data.clients": 1, "data.partition": "iid", "fraction": 1.0}
    free = fedkf.run(settings, **common).rounds[0].losses["drift"]
    assert free > 0.005
    clipped = fedkf.run(settings, federation={"clip": 0.01}, **common).rounds[0].losses["drift"]
    assert clipped == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_a_run_with_adam_and_a_schedule_is_resumed_to_the_same_bytes(
    settings: Settings, tmp_path: Path
) -> None:
    how: dict[str, Any] = {
        "optimizer": "adam",
        "schedule": "cosine",
        "federation.clip": 1.0,
        "lr": 0.01,
    }
    fedkf.run(settings, out=tmp_path / "a", **how)
    fedkf.run(settings, out=tmp_path / "b", on_round=lambda r: r["round"] != 1, **how)
    fedkf.run(settings, out=tmp_path / "b", resume=True, **how)
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    with pytest.raises(UserError, match="schedule depends on"):
        fedkf.run(settings, out=tmp_path / "b", resume=True, rounds=9, **how)


def test_bfloat16_is_close_and_leaves_float32_weights(settings: Settings) -> None:
    common: dict[str, Any] = dict(algorithm="fedavg", rounds=1, lr=0.01)
    full = fedkf.run(settings, **common).weights["oca"]
    half = fedkf.run(settings, precision="bfloat16", **common).weights["oca"]
    assert any(not torch.equal(full[name], half[name]) for name in full)
    for name, tensor in half.items():
        assert tensor.dtype == torch.float32
        assert torch.allclose(tensor, full[name], atol=2e-3)
    assert all(math.isfinite(float(t.sum())) for t in half.values())


def test_training_is_in_bfloat16_and_what_is_told_of_a_model_in_float32(
    settings: Settings,
) -> None:
    """Losses before training, statistics and judgements, also within a step that trains."""
    client = make_client(settings, 1)
    task, data, shared = client.task, client.data, client.task.initial_weights
    down = Payload(weights=shared)

    def told() -> list[Any]:
        made = outputs(task.load("student", shared).eval(), data.images)
        return [made, starting_loss(client, shared), CCVR().describe(client, down)]

    whole, tuned = told(), Personal("finetune", 2)(client, shared)
    task.training = replace(task.training, precision="bfloat16")
    with task.precision(training=True):
        again = told()
    assert torch.equal(whole[0], again[0])
    assert whole[1] == again[1]
    for name, tensor in whole[2]["feature_statistics"].items():
        assert torch.equal(tensor, again[2]["feature_statistics"][name])
    low = Personal("finetune", 2)(client, shared)  # a step that judges is in float32 around it
    assert any(not torch.equal(tuned[name], low[name]) for name in shared)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"algorithm.name": "scaffold", "federation.optimizer": "adam"},
            r"federation\.optimizer is 'adam', but the rule of scaffold reckons with plain steps",
        ),
        ({"algorithm.name": "qffl", "federation.schedule": "cosine"}, "it must be constant"),
        ({"algorithm.name": "fednova", "federation.clip": 1.0}, "it must be none"),
        (
            {"federation.optimizer": "adamw", "federation.momentum": 0.9},
            "adamw has its own; it must be 0",
        ),
        ({"federation.optimizer": "lion"}, "it must be 'sgd', 'adam' or 'adamw'"),
    ],
)
def test_what_does_not_go_together_is_refused(
    settings: Settings, overrides: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve(settings, overrides)


def twice(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 2 * nn.functional.cross_entropy(outputs, targets)


def test_a_loss_of_ones_own_is_what_training_descends(settings: Settings, tmp_path: Path) -> None:
    """Twice the loss at half the rate is the same descent."""
    plain = fedkf.run(settings, algorithm="fedavg", rounds=1, lr=0.04).weights["oca"]
    run = fedkf.run(settings, algorithm="fedavg", rounds=1, lr=0.02, task=twice, out=tmp_path / "a")
    for name, tensor in run.weights["oca"].items():
        assert torch.allclose(tensor, plain[name], atol=1e-6)
    assert fedkf.load(tmp_path / "a").class_names == ["0", "1", "2"]
    with pytest.raises(UserError, match="top level of a module"):
        fedkf.run(settings, task=lambda outputs, targets: outputs.sum())
    with pytest.raises(UserError, match="a loss of your own is a task"):
        fedkf.run(settings, loss=twice)
