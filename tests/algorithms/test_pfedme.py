"""pFedMe: hand-worked steps, its fixed point on quadratics, and a personal model that is better."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings
from helpers import Unweighted, close, linear, server, sites, upload, varying
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.pfedme import PFedMe
from fedkf.core.payload import Payload

ONE = torch.eye(1)


def test_with_one_personal_step_taken_whole_it_is_the_plain_mean(settings: Settings) -> None:
    """K = 1 and ηλ → 1: w_k ← θ = w − ρ ∇f(w), a step of SGD with the personal learning rate."""
    shared: Settings = {"steps": 1, "local_epochs": 1, "lr": 0.05}
    options: Settings = {"penalty": 20 - 1e-7, "personal_steps": 1, "personal_lr": 0.05}
    ours = fedkf.run(settings, algorithm="pfedme", **options, **shared).weights
    plain = fedkf.run(settings, algorithm=Unweighted(), **shared).weights
    assert close(ours["aca"], plain["aca"])
    assert close(ours["oca"], plain["oca"])


def test_a_round_worked_out_by_hand(tmp_path: Path) -> None:
    # f = ½·2 (w − 3)², w = 0, λ = 4, ρ = 0.1, K = 2:
    # θ₁ = 0 − 0.1·(2·(0 − 3) + 0) = 0.6; θ₂ = 0.6 − 0.1·(2·(0.6 − 3) + 4·0.6) = 0.84.
    # η = 0.05: w_k = 0 − 0.05·4·(0 − 0.84) = 0.168. The other client's optimum is w, it stays at 0.
    # β = 0.5 and clients alike, though one is nine times as large: w = 0.5 · 0.168 / 2.
    federation = Quadratics([2 * ONE, ONE], [tensor([3.0]), tensor([0.0])], sizes=[1, 9])
    algorithm = PFedMe(penalty=4.0, personal_steps=2, personal_lr=0.1, beta=0.5)
    w = federation.run(algorithm, tmp_path, 1, lr=0.05)
    assert w.item() == pytest.approx(0.042)
    assert federation.kept(0, "personal").item() == pytest.approx(0.84)
    assert federation.kept(1, "personal").item() == pytest.approx(0.0)


def test_long_steps_of_the_server_leave_variances_where_the_clients_have_them() -> None:
    # w = 0 + 2·((1 + 3)/2 − 0) = 4; the variance is (1 + 2)/2, not 8 + 2·(1.5 − 8) = −5.
    state = Payload(weights={"w": tensor([0.0]), "running_var": tensor([8.0])})
    uploads = [varying(upload(0, 3, [1.0]), 1.0), varying(upload(1, 1, [3.0]), 2.0)]
    new = PFedMe(beta=2.0).aggregate(server(), state, uploads)
    assert new["weights"] == {"w": tensor([4.0]), "running_var": tensor([1.5])}


def test_it_ends_at_the_minimum_of_the_moreau_envelopes(tmp_path: Path) -> None:
    """Equal curvature: w is the mean of the optima, θ_k = (c_k + λ w) / (1 + λ) lies between."""
    federation = Quadratics([ONE, ONE], [tensor([-1.0]), tensor([5.0])])
    algorithm = PFedMe(penalty=3.0, personal_steps=10, personal_lr=0.2)
    w = federation.run(algorithm, tmp_path, 60, lr=0.3)
    assert w.item() == pytest.approx(2.0, abs=1e-3)
    assert federation.kept(0, "personal").item() == pytest.approx((-1 + 3 * 2) / 4, abs=1e-2)
    assert federation.kept(1, "personal").item() == pytest.approx((5 + 3 * 2) / 4, abs=1e-2)


def test_personal_models_are_judged_beside_the_two_readouts() -> None:
    result = fedkf.run(
        model=linear,
        clients=sites(),
        algorithm=PFedMe(penalty=1.0),
        fraction=0.5,
        local_epochs=4,
        lr=0.5,
        rounds=12,
        workers=0,
    )
    last = result.history[-1]["readouts"]
    assert set(result.weights) == {"aca", "oca"}
    assert list(last) == ["aca", "oca", "personal"]
    assert result.summary["readouts"]["personal"]["wlp"] > result.summary["readouts"]["aca"]["wlp"]
    # Whoever has not been active yet is judged by the shared model.
    first = result.history[0]
    idle = set(range(4)) - set(first["active"])
    scores = first["readouts"]
    for k in idle:
        assert scores["personal"]["accuracy"][k] == scores["aca"]["accuracy"][k]


@pytest.mark.parametrize("penalty", [10.0, 15.0])
def test_a_shared_model_that_would_overshoot_is_refused(settings: Settings, penalty: float) -> None:
    with pytest.raises(fedkf.UserError, match=r"federation\.lr is 0\.1 .* a product below 1"):
        fedkf.run(settings, algorithm="pfedme", penalty=penalty, lr=0.1)
