"""FedKF with its generator on the server: what the server learns, sends, and leaves unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf.algorithms.fedkf import activation_loss, information_entropy_loss, one_hot_loss
from fedkf.algorithms.fedkf_server import FedKFServer
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.models.features import features_and_logits
from fedkf.models.generator import DCGAN
from fedkf.models.lenet import LeNet5


@pytest.mark.parametrize("fidelity", ["text", "released"])
def test_without_distillation_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, fidelity: str
) -> None:
    options: Settings = {"gamma": 0.0, "generator_steps": 2, "fidelity": fidelity}
    fedkf.run(settings, algorithm="fedkf-server", out=tmp_path / "kf", **options)
    fedkf.run(settings, algorithm="fedavg", fidelity=fidelity, out=tmp_path / "avg")
    assert model_bytes(tmp_path / "kf") == model_bytes(tmp_path / "avg")


def test_the_generator_that_goes_down_took_n_steps_against_the_oca(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Payload] = []
    broadcast = FedKFServer.broadcast

    def spy(self: FedKFServer, server: Any, state: Payload) -> Payload:
        sent.append(broadcast(self, server, state))
        return sent[-1]

    monkeypatch.setattr(FedKFServer, "broadcast", spy)
    algorithm = FedKFServer(generator_steps=4, lambda1=0.3, lambda2=0.05)
    fedkf.run(settings, algorithm=algorithm, rounds=2, out=tmp_path)

    start = Payload.load(next((tmp_path / "checkpoint").glob("start.*")))["weights"]
    generator = DCGAN((1, 16, 16), 8, 4, [0.5], [0.5])
    with torch.random.fork_rng():
        torch.manual_seed(Streams(0).integer("generator"))
        generator.load_state_dict(DCGAN((1, 16, 16), 8, 4, [0.5], [0.5]).state_dict())
    adam = torch.optim.Adam(generator.parameters(), lr=0.001)
    for number, teacher_weights in enumerate((start, sent[1]["teacher"]), 1):
        teacher = LeNet5((1, 16, 16), 3).eval()
        teacher.load_state_dict(teacher_weights)
        noise = Streams(0).torch_generator("generator noise", number, -1)
        for _ in range(4):
            features, logits = features_and_logits(
                teacher, generator(torch.randn(8, 8, generator=noise))
            )
            loss = information_entropy_loss(logits) + 0.3 * one_hot_loss(logits)
            adam.zero_grad()
            (loss + 0.05 * activation_loss(features)).backward()
            adam.step()
        for name, parameter in generator.named_parameters():
            if not name.startswith("conv") or not name.endswith("bias"):  # no effect before a norm
                got = sent[number - 1]["generator"][name]
                assert torch.allclose(got, parameter, atol=1e-4), (number, name)


def test_clients_keep_nothing_and_the_generators_bytes_are_counted(
    settings: Settings, tmp_path: Path
) -> None:
    options: Settings = {"rounds": 1, "generator_steps": 1}
    ours = fedkf.run(settings, algorithm="fedkf-server", out=tmp_path, **options)
    plain = fedkf.run(settings, algorithm="fedkf", rounds=1)
    assert not list((tmp_path / "checkpoint" / "clients").iterdir())
    state = Payload.load(next((tmp_path / "checkpoint").glob("state.*")))
    generator = sum(t.nbytes for t in state["generator"].values())
    active = len(ours.history[0]["active"])
    extra = ours.summary["bytes"]["down"] - plain.summary["bytes"]["down"]
    assert extra == active * generator > 0
    assert ours.summary["bytes"]["up"] == pytest.approx(plain.summary["bytes"]["up"], rel=0.01)


def test_it_has_no_adversarial_term() -> None:
    with pytest.raises(fedkf.UserError, match=r"algorithm\.adversarial"):
        FedKFServer(adversarial=True)
