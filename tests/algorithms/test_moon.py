"""MOON: a step by hand, what stays with the client, and that μ = 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checks import Normed, is_fedavg, one_step, refuses, survives
from conftest import Outcome, Settings
from torch import nn, tensor

import fedkf
import fedkf.algorithms.moon
from fedkf.algorithms.moon import MOON, contrastive_loss
from fedkf.core.arithmetic import subtract
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training
from fedkf.paper.operations import measure


@pytest.mark.parametrize("model", [None, Normed])
@pytest.mark.parametrize("head", [0, 6])
def test_without_its_term_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Any, head: int
) -> None:
    """With a head too: it stands beside the classifier, not before it."""
    is_fedavg(settings, tmp_path, "moon", model, mu=0.0, head=head)


@pytest.mark.parametrize("head", [0, 6])
def test_workers_and_a_kill_change_nothing(settings: Settings, tmp_path: Path, head: int) -> None:
    survives(settings, tmp_path, "moon", Normed, head=head)


class Plane(nn.Module):
    """Features (a x, b x), which are the logits too."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(1, 2, bias=False)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return out

    def classify(self, f: torch.Tensor) -> torch.Tensor:
        return f

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(x))


def plane(a: float, b: float) -> dict[str, Any]:
    return {"body.weight": tensor([[a], [b]])}


def test_a_step_worked_out_by_hand() -> None:
    # x = 1, y = 0. z = z_glob = (1, 0), z_prev = (0.6, 0.8): cosines 1 and 0.6; τ = 0.5.
    # q = exp(0.6/τ) / (exp(1/τ) + exp(0.6/τ)) = 1 / (1 + exp(0.8))
    # cos(z, z_glob) is at its peak; ∇ cos(z, z_prev) = z_prev − 0.6 z = (0, 0.8)
    # ∇ℓ_con = q/τ (0, 0.8); p = softmax(1, 0), ∇CE = (p₀ − 1, p₁)
    # w = (1, 0) − η (∇CE + μ ∇ℓ_con) with η = 0.1, μ = 3
    q = 1 / (1 + math.exp(0.8))
    p = math.e / (1 + math.e)
    expected = [1 - 0.1 * (p - 1), -0.1 * (1 - p + 3 * q / 0.5 * 0.8)]
    down = Payload(weights=plane(1, 0), head={})
    state = Payload(weights=plane(0.6, 0.8), head={})
    upload, client = one_step(MOON(mu=3.0, temperature=0.5), Plane, [[1.0]], [0], down, 0.1, state)
    assert upload["weights"]["body.weight"].flatten().tolist() == pytest.approx(expected)
    assert upload.number("monitoring", "contrast") == pytest.approx(-math.log(1 - q))
    # and the model it uploaded is its previous one next time, which nobody else sees
    assert client.state is not None
    assert torch.equal(client.state["weights"]["body.weight"], upload["weights"]["body.weight"])
    assert set(upload.kinds) == {"weights", "monitoring", "head"}


def test_the_contrastive_loss_worked_out_by_hand() -> None:
    z, near, far = tensor([[2.0, 0.0]]), tensor([[0.0, 3.0]]), tensor([[5.0, 0.0]])
    # cosines 0 and 1, τ = 1: −log(1 / (1 + e))
    assert contrastive_loss(z, near, far, 1.0).item() == pytest.approx(math.log(1 + math.e))
    # features of zeros have no direction, and no gradient that is not a number
    zero = torch.zeros(1, 2, requires_grad=True)
    contrastive_loss(zero, near, far, 0.5).backward()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()


def test_before_a_clients_first_turn_its_previous_model_is_the_initial_one() -> None:
    # In round 1 both are w⁰, so the loss is log 2 whatever the features, and has no gradient.
    down = Payload(weights=plane(0.3, 0.1), head={})
    _, client = one_step(MOON(mu=0.0), Plane, [[1.0]], [0], down)
    first = client.task.initial_weights
    plain, _ = one_step(MOON(mu=0.0), Plane, [[1.0]], [0], Payload(weights=first, head={}))
    moon, _ = one_step(MOON(mu=9.0), Plane, [[1.0]], [0], Payload(weights=first, head={}))
    assert moon.number("monitoring", "contrast") == pytest.approx(math.log(2))
    assert torch.allclose(moon["weights"]["body.weight"], plain["weights"]["body.weight"])


def test_the_term_draws_features_to_the_global_models(settings: Settings) -> None:
    def contrast(mu: float) -> float:
        run = fedkf.run(settings, algorithm="moon", mu=mu, rounds=6, fraction=1.0, lr=0.1)
        return float(run.history[-1]["losses"]["contrast"])

    assert contrast(5.0) < contrast(0.0)


def test_a_head_is_trained_and_sent_and_the_model_stays_the_users_own(settings: Settings) -> None:
    plain = fedkf.run(settings, algorithm="moon", mu=5.0).weights["aca"]
    seen = fedkf.run(settings, algorithm="moon", mu=5.0, head=6).weights["aca"]
    assert seen.keys() == plain.keys()
    assert any(not torch.equal(seen[name], plain[name]) for name in plain)
    algorithm = MOON(mu=3.0, head=4)
    _, client = one_step(MOON(), Plane, [[1.0]], [0], Payload(weights=plane(1, 0), head={}))
    first = algorithm.first(client.task)
    old = first.replace(weights=plane(0.6, 0.8))
    upload, _ = one_step(algorithm, Plane, [[1.0], [-0.5]], [0, 1], first, state=old)
    assert upload["head"].keys() == first["head"].keys()
    assert any(not torch.equal(upload["head"][name], first["head"][name]) for name in first["head"])


def test_the_heads_learning_rate_follows_the_schedule() -> None:
    algorithm, training = MOON(mu=3.0, head=4), Training(lr=0.1, schedule="cosine", rounds=10)
    task = Task(Plane, (1,), 2, training, Streams(0))
    x, y = torch.tensor([[1.0], [-0.5]]), torch.tensor([0, 1])
    first = algorithm.first(task)
    old = first.replace(weights=plane(0.6, 0.8))
    moved = {}
    for round in (1, 8):
        client = Client(0, round, ClientData(x, y, x[:0], y[:0]), task, old)
        moved[round] = subtract(algorithm.local_update(client, first)["head"], first["head"])
    share = training.rate(8) / training.rate(1)
    assert 0 < share < 0.5
    for name, far in moved[1].items():
        assert torch.allclose(moved[8][name], share * far, atol=1e-7)


def test_passes_bytes_and_disclosure() -> None:
    row = measure(MOON())
    assert tuple(row["passes"].values()) == (3, 1, 0, 0)
    assert (row["bytes_down"], row["bytes_up"]) == (1, 1)
    assert row["discloses"] == ["weights"]


def test_values_out_of_range_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "moon", "mu", -1, "a number at least 0")
    refuses(cli, "moon", "temperature", 0, "a number above 0")
    refuses(cli, "moon", "head", -1, "a whole number at least 0")


def test_a_model_without_features_is_refused_beforehand(settings: Settings) -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Conv2d(1, 3, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).mean((2, 3))  # type: ignore[no-any-return]

    with pytest.raises(fedkf.UserError, match="give it methods features"):
        fedkf.run(settings, algorithm="moon", model=Pooled)


def test_in_the_first_round_nothing_is_contrasted(settings: Settings) -> None:
    """Global and previous model are both w⁰ then: the term is ln 2 whatever the features."""
    ours = fedkf.run(settings, algorithm="moon", mu=5.0, rounds=1)
    plain = fedkf.run(settings, algorithm="fedavg", rounds=1)
    assert ours.history[0]["losses"]["contrast"] == pytest.approx(math.log(2))
    for name, expected in plain.weights["aca"].items():
        assert torch.allclose(ours.weights["aca"][name], expected, atol=1e-6)
