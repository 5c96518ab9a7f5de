"""Server optimizers: neutral settings are FedAvg, and steps worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Settings
from helpers import close, server, upload
from torch import tensor

import fedkf
from fedkf.algorithms.fedopt import FedAdam, FedAvgM, FedYogi
from fedkf.core.payload import Payload

STILL = {"beta": 0.0, "beta2": 1.0, "tau": 0.5, "server_lr": 1.0}
"""v stays at its start τ², so that Δ is divided by √v + τ = 2τ = 1."""


@pytest.mark.parametrize(
    ("name", "options"),
    [("fedavgm", {"beta": 0.0, "server_lr": 1.0}), ("fedadam", STILL), ("fedyogi", STILL)],
)
def test_a_neutral_setting_is_fedavg(settings: Settings, name: str, options: Any) -> None:
    ours = fedkf.run(settings, algorithm=name, **options).weights
    assert close(ours["aca"], fedkf.run(settings, algorithm="fedavg").weights["aca"])


def test_steps_worked_out_by_hand() -> None:
    # Δ = ¾·1 + ¼·5 = 2
    uploads = [upload(0, 3, [1.0]), upload(1, 1, [5.0])]
    state = Payload(weights={"w": tensor([0.0])}, momentum={"w": tensor([1.0])})
    new = FedAvgM(beta=0.5, server_lr=0.1).aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(0.1 * (0.5 * 1 + 2))
    # m = 0.9·1 + 0.1·2 = 1.1; v = 0.99·9 + 0.01·4 = 8.95; Yogi: v = 9 − 0.01·4 = 8.96
    state.add("squares", {"w": tensor([9.0])})
    for kind, v in ((FedAdam, 8.95), (FedYogi, 8.96)):
        new = kind(server_lr=0.1, tau=0.5).aggregate(server(), state, uploads)
        assert new["squares"]["w"].item() == pytest.approx(v)
        assert new["weights"]["w"].item() == pytest.approx(0.1 * 1.1 / (v**0.5 + 0.5))
