"""MIFA: full participation is the plain mean; absent clients are remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings
from helpers import Unweighted, close
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.mifa import MIFA


def test_with_everybody_active_it_is_the_plain_mean(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="mifa", fraction=1.0).weights
    plain = fedkf.run(settings, algorithm=Unweighted(), fraction=1.0).weights
    assert close(ours["aca"], plain["aca"])


def test_three_rounds_worked_out_by_hand(tmp_path: Path) -> None:
    # f_k = ½ (w − c_k)², c = (2, 6), one step with η = 0.5: G_k = 0.5 (w − c_k).
    # Round 1, client 0: G = (−1, 0), w = 0 − (−1 + 0)/2 = 0.5.
    # Round 2, client 1: G₁ = 0.5·(0.5 − 6) = −2.75, w = 0.5 + (1 + 2.75)/2 = 2.375.
    # Round 3, client 0: G₀ = 0.5·(2.375 − 2) = 0.1875, w = 2.375 − (0.1875 − 2.75)/2 = 3.65625.
    federation = Quadratics([torch.eye(1)] * 2, [tensor([2.0]), tensor([6.0])], sizes=[1, 9])
    federation.run(MIFA(), tmp_path, 3, active=[[0], [1], [0]], lr=0.5)
    found = [w.item() for w in federation.history]
    assert found == pytest.approx([0, 0.5, 2.375, 3.65625])


def test_clients_that_are_seldom_there_count_as_much_as_the_others(tmp_path: Path) -> None:
    """One client is active in one round of four; the plain mean leans to the other."""
    federation = Quadratics([torch.eye(1)] * 2, [tensor([0.0]), tensor([4.0])])
    active = [[0, 1] if t % 4 == 0 else [0] for t in range(80)]
    remembered = federation.run(MIFA(), tmp_path, 80, active=active, lr=0.1)
    forgetful = federation.run(fedkf.FedAvg(), tmp_path, 80, active=active, lr=0.1)
    assert remembered.item() == pytest.approx(2.0, abs=0.2)
    assert forgetful.item() < 1.0


def test_under_a_schedule_updates_count_as_if_made_at_the_present_rate(tmp_path: Path) -> None:
    # As above, with η = 0.05 in round 2, where w − w₁ = 0.05·(0.5 − 6) is G₁ = −2.75 by η's tenth:
    # w = 0.5 + 0.1·(1 + 2.75)/2.
    federation = Quadratics([torch.eye(1)] * 2, [tensor([2.0]), tensor([6.0])], sizes=[1, 9])
    federation.run(MIFA(), tmp_path, 2, active=[[0], [1]], lr=0.5, schedule="step")
    assert [w.item() for w in federation.history] == pytest.approx([0, 0.5, 0.6875])
