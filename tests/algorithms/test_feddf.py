"""FedDF: what teaches, one step by hand, what it gains on digits, and its proxy data."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from checks import Normed, is_fedavg, refuses, survives
from conftest import Outcome, Settings
from torch import nn, tensor

import fedkf
from fedkf.algorithms.feddf import FedDF, ensemble_outputs
from fedkf.core.payload import Payload, weighted_mean
from fedkf.core.random import Streams
from fedkf.core.server import Server, Upload
from fedkf.core.task import Task, Training
from fedkf.paper.operations import measure


@pytest.mark.parametrize("model", [None, Normed])
def test_without_steps_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Any
) -> None:
    settings["data"]["proxy"] = 0.2
    is_fedavg(settings, tmp_path, "feddf", model, server_steps=0)


def test_workers_and_a_kill_change_nothing(settings: Settings, tmp_path: Path) -> None:
    settings["data"]["proxy"] = 0.2
    survives(settings, tmp_path, "feddf", Normed, server_steps=3, server_batch=8)


def two_numbers(a: float, b: float) -> dict[str, Any]:
    """Logits (a x, b x)."""
    return {"weight": tensor([[a], [b]])}


def task() -> Task:
    return Task(lambda: nn.Linear(1, 2, bias=False), (1,), 2, Training(), Streams(0))


def test_the_ensemble_is_the_mean_of_logits_and_not_of_probabilities() -> None:
    models = [two_numbers(math.log(9), 0), two_numbers(0, 0)]
    logits = ensemble_outputs(task(), models, tensor([[1.0], [2.0]]))
    # (ln 9 + 0) / 2 = ln 3 at x = 1: soft labels (¾, ¼), whereas (0.9 + 0.5) / 2 = 0.7
    assert logits.softmax(1)[0].tolist() == pytest.approx([0.75, 0.25])
    assert logits.softmax(1)[1].tolist() == pytest.approx([0.9, 0.1])


def test_a_round_worked_out_by_hand() -> None:
    # Sizes 3 and 1: the student starts at (¾ ln 9, 0) and is surer of class 0 than the ensemble,
    # (ln 3, 0). Adam's steps are ± its rate: 0.1, then, the cosine being at one half, 0.05.
    server: Any = SimpleNamespace(task=task(), round=1, streams=Streams(0), mean=weighted_mean)
    server.proxy = tensor([[1.0], [1.0]])
    server.own_work = lambda purpose: Server.own_work(server, purpose)
    uploads = [
        Upload(0, 3, Payload(weights=two_numbers(math.log(9), 0))),
        Upload(1, 1, Payload(weights=two_numbers(0, 0))),
    ]
    state = Payload(weights=two_numbers(0, 0))
    algorithm = FedDF(server_steps=2, server_lr=0.1)
    new = algorithm.aggregate(server, state, uploads)["weights"]["weight"].flatten()
    start = 0.75 * math.log(9)
    # The second gradient is a little smaller, which Adam's moments turn into a little less.
    assert new.tolist() == pytest.approx([start - 0.15, 0.15], abs=0.002)
    one = FedDF(server_steps=1, server_lr=0.1).aggregate(server, state, uploads)
    assert one["weights"]["weight"].flatten().tolist() == pytest.approx([start - 0.1, 0.1])


def test_after_much_local_training_it_saves_what_averaging_loses() -> None:
    """The paper's claim on small real data: four clients of digits, one round."""
    options: dict[str, Any] = dict(
        model="mlp", clients=4, alpha=0.3, rounds=1, local_epochs=20, lr=0.1, fraction=1.0
    )
    plain = fedkf.run("digits", algorithm="fedavg", proxy=0.15, **options)
    fused = fedkf.run("digits", algorithm="feddf", proxy=0.15, server_steps=200, **options)
    before, after = (r.summary["readouts"]["aca"]["amp"] for r in (plain, fused))
    assert after > before + 0.05
    # and T1's mean of the uploads is not touched
    assert fused.summary["readouts"]["oca"] == plain.summary["readouts"]["oca"]


def test_batch_norm_students_learn_the_proxys_statistics(settings: Settings) -> None:
    settings["data"]["proxy"] = 0.2
    one = fedkf.run(settings, algorithm="feddf", model=Normed, rounds=1, server_steps=5)
    none = fedkf.run(settings, algorithm="feddf", model=Normed, rounds=1, server_steps=0)
    name = "body.1.running_mean"
    assert not torch.equal(one.weights["aca"][name], none.weights["aca"][name])
    assert torch.equal(one.weights["oca"][name], none.weights["oca"][name])


def test_clients_do_what_fedavgs_do_and_disclose_nothing_more() -> None:
    row = measure(FedDF(**FedDF.tiny))
    assert row["needs_proxy_data"]
    assert row["discloses"] == ["weights"]
    assert tuple(row["passes"].values()) == (1, 1, 0, 0)
    assert (row["bytes_down"], row["bytes_up"]) == (1, 1)


def test_without_proxy_data_the_key_is_named(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = cli("run", "digits", "--set", "algorithm.name=feddf", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "data.proxy is missing" in outcome.err
    assert "Traceback" not in outcome.err


def test_values_out_of_range_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "feddf", "server_steps", -1, "a whole number at least 0")
    refuses(cli, "feddf", "server_lr", 0, "a number above 0")
