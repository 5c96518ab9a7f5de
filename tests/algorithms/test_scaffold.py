"""SCAFFOLD: its first round, steps by hand, and many local steps without drift."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings, make_client
from helpers import Unweighted, close, server, upload, varying
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.scaffold import Scaffold
from fedkf.core.payload import Payload


def test_its_first_round_is_the_plain_mean(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="scaffold", rounds=1).weights
    assert close(ours["aca"], fedkf.run(settings, algorithm=Unweighted(), rounds=1).weights["aca"])


def test_a_round_worked_out_by_hand() -> None:
    # Two of four clients: w = 0 + ((1 − 0) + (3 − 0)) / 2 = 2; c = 0.5 + (2/4)·(0.2 + 0.6)/2 = 0.7
    state = Payload(weights={"w": tensor([0.0])}, control={"w": tensor([0.5])})
    uploads = [
        upload(0, 5, [1.0], control={"w": tensor([0.2])}),
        upload(1, 1, [3.0], control={"w": tensor([0.6])}),
    ]
    new = Scaffold().aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(2.0)
    assert new["control"]["w"].item() == pytest.approx(0.7)


def test_long_steps_of_the_server_leave_variances_where_the_clients_have_them() -> None:
    # w = 0 + 2·((1 + 3)/2 − 0) = 4; the variance is (1 + 2)/2, not 8 + 2·(1.5 − 8) = −5.
    start = {"w": tensor([0.0]), "running_var": tensor([8.0])}
    none = {name: torch.zeros(1) for name in start}
    uploads = [
        varying(upload(0, 3, [1.0], control=none), 1.0),
        varying(upload(1, 1, [3.0], control=none), 2.0),
    ]
    state = Payload(weights=start, control=none)
    new = Scaffold(server_lr=2.0).aggregate(server(), state, uploads)
    assert new["weights"] == {"w": tensor([4.0]), "running_var": tensor([1.5])}


def test_a_client_keeps_the_mean_gradient_of_its_steps(settings: Settings) -> None:
    """With c = c_k = 0, the new c_k is (w − w_k) / (steps · lr), and it stays with the client."""
    client = make_client(settings, 1)
    start = client.task.initial_weights
    zero = {name: torch.zeros_like(t) for name, t in start.items()}
    sent = Scaffold().local_update(client, Payload(weights=start).add("control", zero, "weights"))
    rate = client.steps * client.task.training.lr
    for name, t in start.items():
        expected = (t - sent["weights"][name]) / rate
        assert client.state is not None
        assert torch.allclose(client.state["control"][name], expected, atol=1e-6)
        assert torch.allclose(sent["control"][name], expected, atol=1e-6)


def test_with_many_local_steps_it_finds_the_optimum_that_fedavg_misses(tmp_path: Path) -> None:
    """Clients by label: one curves steeply in one direction, the other in the other."""
    curves = [tensor([[4.0, 0.0], [0.0, 0.2]]), tensor([[0.2, 0.0], [0.0, 4.0]])]
    federation = Quadratics(curves, [tensor([1.0, -3.0]), tensor([-3.0, 1.0])])
    best = federation.optimum([0.5, 0.5])
    local: Settings = {"lr": 0.1, "local_epochs": 10}
    drifted = federation.run(fedkf.FedAvg(), tmp_path, 25, **local)
    corrected = federation.run(Scaffold(), tmp_path, 25, **local)
    assert (drifted - best).norm().item() > 0.3
    assert (corrected - best).norm().item() < 0.01


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_under_momentum_too_it_converges(tmp_path: Path, momentum: float) -> None:
    """Control variates are mean gradients, though momentum moves the model further than those."""
    curves = [tensor([[1.0, 0.0], [0.0, 0.2]]), tensor([[0.2, 0.0], [0.0, 1.0]])]
    federation = Quadratics(curves, [tensor([1.0, -3.0]), tensor([-3.0, 1.0])])
    found = federation.run(
        Scaffold(), tmp_path, 60, lr=0.1 * (1 - momentum), local_epochs=10, momentum=momentum
    )
    assert (found - federation.optimum([0.5, 0.5])).norm().item() < 0.01
