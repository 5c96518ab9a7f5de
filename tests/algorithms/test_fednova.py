"""FedNova: equal steps change nothing, unequal ones no longer pull the optimum aside."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings
from helpers import close, server, upload
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.fednova import FedNova, effective_steps
from fedkf.core.payload import Payload


def test_with_equal_steps_it_is_fedavg(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="fednova", steps=3).weights
    assert close(ours["aca"], fedkf.run(settings, algorithm="fedavg", steps=3).weights["aca"])


def test_a_round_worked_out_by_hand() -> None:
    # p = (¾, ¼), τ = (2, 4): τ_eff = 2.5; d = ¾·(2)/2 + ¼·(4)/4 = 1 → w = 10 − 2.5
    uploads = [upload(0, 3, [8.0]), upload(1, 1, [6.0])]
    uploads[0].payload.add("steps", {"count": 2}, "sizes")
    uploads[1].payload.add("steps", {"count": 4}, "sizes")
    state = Payload(weights={"w": tensor([10.0])})
    new = FedNova().aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(7.5)


def test_effective_steps_under_momentum_are_the_weights_of_all_steps() -> None:
    # momentum ½, three steps: the first counts 1 + ½ + ¼, the second 1 + ½, the third 1
    assert effective_steps(3, 0.5) == pytest.approx(1.75 + 1.5 + 1)
    assert effective_steps(3, 0.0) == 3


def test_a_client_with_more_steps_no_longer_pulls_the_optimum_to_itself(tmp_path: Path) -> None:
    """Sizes 1 and 3 in batches of one: one step against three, each weighted by its size."""
    federation = Quadratics([torch.eye(1)] * 2, [tensor([0.0]), tensor([4.0])], sizes=[1, 3])
    training: Settings = {"lr": 0.05, "batch_size": 1}
    pulled = federation.run(fedkf.FedAvg(), tmp_path, 60, **training)
    fair = federation.run(FedNova(), tmp_path, 60, **training)
    assert federation.optimum([0.25, 0.75]).item() == pytest.approx(3.0)
    assert fair.item() == pytest.approx(3.0, abs=0.1)
    assert pulled.item() == pytest.approx(3.6, abs=0.1)  # weights 1·1 and 3·3 of 10
