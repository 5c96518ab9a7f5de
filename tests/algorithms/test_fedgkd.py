"""FedGKD and FedGKD-VOTE: who teaches, what a step is, and that γ = 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checks import Normed, is_fedavg, one_step, refuses, survives
from conftest import Outcome, Settings
from torch import nn, tensor

import fedkf
from fedkf.algorithms.fedgkd import FedGKD
from fedkf.core.payload import Payload, weighted_mean
from fedkf.core.server import Upload
from fedkf.paper.operations import measure


@pytest.mark.parametrize("model", [None, Normed])
@pytest.mark.parametrize("teacher", ["mean", "vote"])
def test_without_its_term_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Any, teacher: str
) -> None:
    is_fedavg(settings, tmp_path, "fedgkd", model, gamma=0.0, buffer=3, teacher=teacher)


@pytest.mark.parametrize("teacher", ["mean", "vote"])
def test_workers_and_a_kill_change_nothing(
    settings: Settings, tmp_path: Path, teacher: str
) -> None:
    survives(settings, tmp_path, "fedgkd", Normed, buffer=3, teacher=teacher)


def two_numbers() -> nn.Module:
    """Logits (a x, b x)."""
    return nn.Linear(1, 2, bias=False)


def weights(a: float, b: float) -> dict[str, Any]:
    return {"weight": tensor([[a], [b]])}


def test_a_step_worked_out_by_hand() -> None:
    # x = 1, y = 0, w = (0, 0): p = (½, ½), ∇CE = p − (1, 0) = (−½, ½)
    # the teacher's logits are (ln 3, 0): soft labels (¾, ¼), ∇KL = p − (¾, ¼) = (−¼, ¼)
    # γ = 1, η = 0.8: w = −0.8 · ((−½, ½) + ½ (−¼, ¼)) = (½, −½)
    down = Payload(weights=weights(0, 0)).add("teacher", weights(math.log(3), 0), "weights")
    upload, _ = one_step(FedGKD(gamma=1.0), two_numbers, [[1.0]], [0], down, lr=0.8)
    assert upload["weights"]["weight"].flatten().tolist() == pytest.approx([0.5, -0.5])
    # KL((¾, ¼) ‖ (½, ½)) = ¾ ln(3/2) + ¼ ln(1/2)
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert upload.number("monitoring", "kl") == pytest.approx(expected)


def test_a_vote_worked_out_by_hand() -> None:
    # Losses of the teachers on the client's sample: ln 2 for (0, 0) and ln(4/3) for (ln 3, 0).
    # Votes: softmax(−loss) = (½, ¾) / (5/4) = (0.4, 0.6); the first teacher agrees with w.
    # w = −0.8 · ((−½, ½) + ½ · 0.6 · (−¼, ¼)) = (0.46, −0.46)
    down = Payload(weights=weights(0, 0)).add("teacher-1", weights(math.log(3), 0), "weights")
    algorithm = FedGKD(gamma=1.0, teacher="vote")
    upload, _ = one_step(algorithm, two_numbers, [[1.0]], [0], down, lr=0.8)
    assert upload["weights"]["weight"].flatten().tolist() == pytest.approx([0.46, -0.46])


def rounds(algorithm: FedGKD, count: int) -> list[Payload]:
    """What goes down in rounds whose global models are 0, 1, 2, …"""
    state, sent = Payload(weights={"w": tensor([0.0])}), []
    for number in range(1, count + 1):
        server: Any = SimpleNamespace(round=number, mean=weighted_mean)
        sent.append(algorithm.broadcast(server, state))
        upload = Upload(0, 7, Payload(weights={"w": tensor([float(number)])}))
        state = algorithm.aggregate(server, state, [upload])
    return sent


def test_the_teacher_is_the_mean_of_the_last_global_models() -> None:
    sent = rounds(FedGKD(buffer=3), 5)
    assert [p["weights"]["w"].item() for p in sent] == [0, 1, 2, 3, 4]
    assert "teacher" not in sent[0]  # w⁰ is its own teacher, and is sent once
    assert [p["teacher"]["w"].item() for p in sent[1:]] == [0.5, 1, 2, 3]


def test_in_a_vote_every_one_of_them_teaches() -> None:
    sent = rounds(FedGKD(buffer=3, teacher="vote"), 4)[-1]
    assert {group: sent[group]["w"].item() for group in sent} == {
        "weights": 3,
        "teacher-1": 2,
        "teacher-2": 1,
    }


def test_the_released_program_waits_for_a_full_buffer() -> None:
    sent = rounds(FedGKD(buffer=3, wait=True), 5)
    assert ["teacher" in p for p in sent] == [False, False, False, True, True]
    assert sent[3]["teacher"]["w"].item() == 2  # of w¹, w² and w³: nobody trained w⁰
    assert fedkf.algorithms.get("fedgkd").fidelity["released"] == {"wait": True}


def test_a_larger_gamma_keeps_predictions_nearer_to_the_teachers(settings: Settings) -> None:
    """What the term is for: less drift from the global models, on the client's own data."""

    def drift(gamma: float) -> float:
        run = fedkf.run(settings, algorithm="fedgkd", gamma=gamma, lr=0.2, rounds=6)
        return float(run.history[-1]["losses"]["kl"])

    assert drift(20.0) < 0.5 * drift(0.0)


def test_passes_and_bytes_are_the_papers() -> None:
    row = measure(FedGKD(buffer=2))
    assert tuple(row["passes"].values()) == (2, 1, 0, 0)
    assert (row["bytes_down"], row["bytes_up"]) == (2, 1)
    assert row["discloses"] == ["weights"]
    assert measure(FedGKD(buffer=1))["bytes_down"] == 1


def test_values_out_of_range_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "fedgkd", "gamma", -0.1, "a number at least 0")
    refuses(cli, "fedgkd", "buffer", 0, "a whole number at least 1")
    refuses(cli, "fedgkd", "teacher", "max", "one of mean, vote")
