"""FedProx, q-FFL, SCAFFOLD, FedNova, MIFA, server optimizers: neutral settings, hand-worked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, model_bytes
from torch import tensor

import fedkf
from fedkf.algorithms.fednova import FedNova, effective_steps
from fedkf.algorithms.fedopt import FedAdam, FedAvgM, FedYogi
from fedkf.algorithms.qffl import QFFL
from fedkf.algorithms.scaffold import Scaffold
from fedkf.core.payload import Payload, Weights, weighted_mean
from fedkf.core.server import Upload
from fedkf.core.task import Training

NAMES = ["fedprox", "qffl", "scaffold", "fednova", "mifa", "fedavgm", "fedadam", "fedyogi"]


@dataclass(frozen=True)
class Unweighted(fedkf.Algorithm):
    """FedAvg that counts clients alike."""

    name: ClassVar[str] = "unweighted"

    def aggregate(self, server: Any, state: Payload, uploads: Sequence[Upload]) -> Payload:
        return state.replace(weights=weighted_mean((1, u["weights"]) for u in uploads))


def close(a: Weights, b: Weights) -> bool:
    return all(torch.allclose(a[name], b[name], atol=1e-6) for name in b)


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_workers_and_any_resume_give_identical_models(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    fedkf.run(settings, algorithm=name, rounds=4, out=tmp_path / "a")
    fedkf.run(settings, algorithm=name, rounds=2, workers=2, out=tmp_path / "b")
    fedkf.run(settings, algorithm=name, rounds=4, workers=2, resume=True, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    assert len(model_bytes(tmp_path / "a")) == 2


def test_fedprox_without_its_term_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, algorithm="fedprox", mu=0.0, out=tmp_path / "prox")
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "avg")
    assert model_bytes(tmp_path / "prox") == model_bytes(tmp_path / "avg")


def test_fedprox_with_a_large_mu_stays_near_the_global_model(settings: Settings) -> None:
    def moved(mu: float) -> float:
        run = fedkf.run(settings, algorithm="fedprox", mu=mu, rounds=1, fraction=1.0)
        start = fedkf.run(settings, algorithm="fedprox", mu=mu, rounds=1, fraction=1.0, lr=1e-12)
        pairs = zip(run.weights["aca"].values(), start.weights["aca"].values(), strict=True)
        return sum((a - b).square().sum().item() for a, b in pairs)

    assert moved(5.0) < 0.8 * moved(0.0)


@pytest.mark.parametrize(
    ("name", "options", "plain"),
    [
        ("fednova", {"steps": 3}, fedkf.FedAvg()),
        ("fedavgm", {"beta": 0.0, "server_lr": 1.0}, fedkf.FedAvg()),
        ("qffl", {"q": 0.0}, Unweighted()),
        ("mifa", {"fraction": 1.0}, Unweighted()),
        ("scaffold", {"rounds": 1}, Unweighted()),
    ],
)
def test_a_neutral_setting_is_the_mean(
    settings: Settings, name: str, options: dict[str, Any], plain: fedkf.Algorithm
) -> None:
    shared = {k: v for k, v in options.items() if k in ("steps", "fraction", "rounds")}
    ours = fedkf.run(settings, algorithm=name, **options).weights
    expected = fedkf.run(settings, algorithm=plain, **shared).weights
    assert close(ours["aca"], expected["aca"])


def upload(client: int, size: int, w: list[float], **groups: Any) -> Upload:
    payload = Payload(weights={"w": tensor(w)})
    for name, values in groups.items():
        payload.add(name, values, "weights" if name == "control" else None)
    return Upload(client, size, payload)


def server(lr: float = 0.5, momentum: float = 0.0, clients: int = 4) -> Any:
    training = Training(lr=lr, momentum=momentum)
    task = SimpleNamespace(training=training, parameters=["w"])
    return SimpleNamespace(task=task, sizes=dict.fromkeys(range(clients), 1))


def test_a_step_of_qffl_worked_out_by_hand() -> None:
    # L = 2; g₁ = 2·(1, 0), g₂ = 2·(0, 1); F = (4, 1); q = 1:
    # Σ F g = (8, 2); h₁ = 1·1·4 + 2·4 = 12, h₂ = 1·1·4 + 2·1 = 6; w = 1 − (8, 2) / 18
    uploads = [
        upload(0, 9, [0.0, 1.0], local_loss={"value": 4.0}),
        upload(1, 1, [1.0, 0.0], local_loss={"value": 1.0}),
    ]
    state = Payload(weights={"w": tensor([1.0, 1.0])})
    new = QFFL(q=1.0).aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([1 - 8 / 18, 1 - 2 / 18])


def test_a_step_of_fednova_worked_out_by_hand() -> None:
    # p = (¾, ¼), τ = (2, 4): τ_eff = 2.5; d = ¾·(2)/2 + ¼·(4)/4 = 1 → w = 10 − 2.5
    uploads = [upload(0, 3, [8.0]), upload(1, 1, [6.0])]
    uploads[0].payload.add("steps", {"count": 2}, "sizes")
    uploads[1].payload.add("steps", {"count": 4}, "sizes")
    state = Payload(weights={"w": tensor([10.0])})
    assert FedNova().aggregate(server(), state, uploads)["weights"]["w"].item() == pytest.approx(
        7.5
    )


def test_effective_steps_under_momentum_are_the_weights_of_all_steps() -> None:
    # momentum ½, three steps: the first counts 1 + ½ + ¼, the second 1 + ½, the third 1
    assert effective_steps(3, 0.5) == pytest.approx(1.75 + 1.5 + 1)
    assert effective_steps(3, 0.0) == 3


def test_a_round_of_scaffold_worked_out_by_hand() -> None:
    # Two of four clients: w = 0 + ((1 − 0) + (3 − 0)) / 2 = 2; c = 0.5 + (2/4)·(0.2 + 0.6)/2 = 0.7
    state = Payload(weights={"w": tensor([0.0])}, control={"w": tensor([0.5])})
    uploads = [
        upload(0, 5, [1.0], control={"w": tensor([0.2])}),
        upload(1, 1, [3.0], control={"w": tensor([0.6])}),
    ]
    new = Scaffold().aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(2.0)
    assert new["control"]["w"].item() == pytest.approx(0.7)


def test_scaffolds_client_keeps_the_mean_gradient_of_its_steps(settings: Settings) -> None:
    """With c = c_k = 0, the new c_k is (w − w_k) / (steps · lr), and it stays with the client."""
    from test_fedkf import make_client

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


def test_server_optimizers_worked_out_by_hand() -> None:
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


def test_what_each_sends_is_measured() -> None:
    from fedkf.paper.operations import measure

    assert (measure(Scaffold())["bytes_down"], measure(Scaffold())["bytes_up"]) == (2, 2)
    assert measure(QFFL())["discloses"] == ["weights", "local_loss"]
    assert measure(QFFL())["passes"]["classifier_forward"] == 1  # its loss is outside the steps
