"""Per-FedAvg: hand-worked steps of both variants; one step makes the model a client's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings, Unsteady, make_client
from helpers import Unweighted, close, linear, sites
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.perfedavg import PerFedAvg
from fedkf.core.payload import Payload


@pytest.mark.parametrize("variant", ["first-order", "hessian-free"])
def test_without_a_personal_step_it_is_the_plain_mean(settings: Settings, variant: str) -> None:
    """One batch holds all of a client's data, so that D, D′ and D″ are the same."""
    shared: Settings = {"batch_size": 100, "rounds": 2}
    ours = fedkf.run(settings, algorithm="perfedavg", personal_lr=0.0, variant=variant, **shared)
    plain = fedkf.run(settings, algorithm=Unweighted(), **shared)
    assert close(ours.weights["aca"], plain.weights["aca"])


@pytest.mark.parametrize(("variant", "power"), [("first-order", 1), ("hessian-free", 2)])
def test_a_step_worked_out_by_hand(tmp_path: Path, variant: str, power: int) -> None:
    # f = ½·2 (w − 3)² at w = 0: ∇f = −6. After a personal step of α = 0.1 it is −6·(1 − 0.2);
    # the second derivative multiplies that by 1 − 0.2 once more. η = 0.5, and the other client is
    # at its optimum: w = 0.5 · 6 · 0.8^power / 2, though that one is nine times as large.
    curves, centres = [2 * torch.eye(1), torch.eye(1)], [tensor([3.0]), tensor([0.0])]
    federation = Quadratics(curves, centres, sizes=[1, 9])
    w = federation.run(PerFedAvg(personal_lr=0.1, variant=variant), tmp_path, 1, lr=0.5)
    assert w.item() == pytest.approx(0.5 * 6 * 0.8**power / 2)


def test_it_ends_where_the_losses_after_a_personal_step_are_least(tmp_path: Path) -> None:
    """f_k(w − α ∇f_k(w)) = ½ a_k (1 − α a_k)² (w − c_k)²: weights a_k (1 − α a_k)²."""
    curves, centres = [torch.eye(1), 4 * torch.eye(1)], [tensor([0.0]), tensor([3.0])]
    federation = Quadratics(curves, centres)
    w = federation.run(PerFedAvg(personal_lr=0.1, variant="hessian-free"), tmp_path, 60, lr=0.3)
    first, second = 1 * 0.9**2, 4 * 0.6**2
    assert w.item() == pytest.approx(3 * second / (first + second), abs=1e-3)


def test_one_step_makes_the_shared_model_better_for_each_site() -> None:
    result = fedkf.run(
        model=linear,
        clients=sites(),
        algorithm=PerFedAvg(personal_lr=0.5),
        fraction=1.0,
        local_epochs=1,
        lr=0.1,
        rounds=30,
        evaluate_every=30,
        checkpoint_every=30,
        workers=0,
    )
    scores = result.summary["readouts"]
    assert list(scores) == ["aca", "oca", "personal"]
    assert scores["personal"]["wlp"] > scores["aca"]["wlp"] + 0.1


def test_batch_norm_learns_from_passes_at_the_shared_model_only(settings: Settings) -> None:
    client = make_client(settings, 1)
    client.task.make_model = Unsteady
    down = Payload(weights=client.task.initial_weights)
    upload = PerFedAvg(variant="hessian-free").local_update(client, down)
    passes = upload["weights"]["body.1.num_batches_tracked"]
    assert passes.item() == client.steps > 0
