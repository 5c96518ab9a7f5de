"""FedProx: without its term FedAvg; with much of it, close to the global model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings, model_bytes
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.fedprox import FedProx


def test_without_its_term_it_is_fedavg_byte_for_byte(settings: Settings, tmp_path: Path) -> None:
    fedkf.run(settings, algorithm="fedprox", mu=0.0, out=tmp_path / "prox")
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "avg")
    assert model_bytes(tmp_path / "prox") == model_bytes(tmp_path / "avg")


def test_two_steps_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½ (w − 4)², w = 0, η = 0.5, μ = 1: w₁ = 0.5·4 = 2; w₂ = 2 − 0.5·((2 − 4) + 1·2) = 2.
    federation = Quadratics([torch.eye(1)], [tensor([4.0])])
    w = federation.run(FedProx(mu=1.0), tmp_path, 1, lr=0.5, local_epochs=2)
    assert w.item() == pytest.approx(2.0)


def test_with_a_large_mu_local_models_stay_near_the_global_one(settings: Settings) -> None:
    def moved(mu: float) -> float:
        run = fedkf.run(settings, algorithm="fedprox", mu=mu, rounds=1, fraction=1.0)
        start = fedkf.run(settings, algorithm="fedprox", mu=mu, rounds=1, fraction=1.0, lr=1e-12)
        pairs = zip(run.weights["aca"].values(), start.weights["aca"].values(), strict=True)
        return sum((a - b).square().sum().item() for a, b in pairs)

    assert moved(5.0) < 0.8 * moved(0.0)
