"""FedKF as a whole: its invariants, what it computes, what it sends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import Settings, Unsteady, make_client, model_bytes
from torch import nn

import fedkf
import fedkf.algorithms.fedkf
from fedkf.algorithms.fedkf import FedKFMinus
from fedkf.core.client import Client
from fedkf.core.payload import Payload
from fedkf.distillation.generators import Generation
from fedkf.distillation.losses import judge
from fedkf.paper.operations import measure
from fedkf.runs.config import resolve
from fedkf.runs.setup import load_source, settle


@pytest.mark.parametrize("fidelity", ["text", "released"])
@pytest.mark.parametrize("model", [None, Unsteady])
@pytest.mark.parametrize("teacher", ["oca", "aca"])
def test_without_distillation_fedkf_is_fedavg_byte_for_byte(
    settings: Settings,
    tmp_path: Path,
    fidelity: str,
    model: Callable[[], nn.Module] | None,
    teacher: str,
) -> None:
    fedkf.run(
        settings, fidelity=fidelity, model=model, out=tmp_path / "kf", gamma=0.0, teacher=teacher
    )
    fedkf.run(settings, algorithm="fedavg", fidelity=fidelity, model=model, out=tmp_path / "avg")
    assert model_bytes(tmp_path / "kf") == model_bytes(tmp_path / "avg")
    assert set(model_bytes(tmp_path / "kf")) == {"aca.safetensors", "oca.safetensors"}
    # and not because nothing was distilled
    states = list((tmp_path / "kf" / "checkpoint" / "clients").iterdir())
    assert states


def test_distillation_changes_the_models(settings: Settings, tmp_path: Path) -> None:
    fedkf.run(settings, out=tmp_path / "kf")
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "avg")
    assert model_bytes(tmp_path / "kf") != model_bytes(tmp_path / "avg")


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (fedkf.FedAvg(), (1, 1, 0, 0)),
        (fedkf.FedKF(resample=False), (3, 3, 1, 1)),
        (FedKFMinus(resample=False), (3, 3, 1, 1)),
        (fedkf.FedKF(resample=True), (4, 3, 2, 1)),
        (fedkf.FedKF(resample=False, adversarial=True), (4, 4, 1, 1)),
    ],
    ids=["fedavg", "released", "fedkf-", "text", "adversarial"],
)
def test_passes_are_those_of_the_papers_table_of_operations(
    algorithm: fedkf.Algorithm, expected: tuple[float, ...]
) -> None:
    assert tuple(measure(algorithm)["passes"].values()) == expected


def test_fedkf_sends_two_models_down_and_fedkf_minus_one() -> None:
    assert (measure(fedkf.FedKF())["bytes_down"], measure(fedkf.FedKF())["bytes_up"]) == (2, 1)
    assert (measure(FedKFMinus())["bytes_down"], measure(FedKFMinus())["bytes_up"]) == (1, 1)


def one_update(settings: Settings, algorithm: fedkf.Algorithm, round: int = 2) -> Client:
    client = make_client(settings, round)
    task = client.task
    teacher = {name: tensor + 0.01 for name, tensor in task.initial_weights.items()}
    down = Payload(weights=task.initial_weights).add("teacher", teacher, "weights")
    client.upload_ = algorithm.local_update(client, down)  # type: ignore[attr-defined]
    return client


@pytest.mark.parametrize("resample", [True, False])
def test_the_teacher_receives_no_gradient_and_does_not_move(
    settings: Settings, resample: bool
) -> None:
    client = one_update(settings, fedkf.FedKF(resample=resample, adversarial=True))
    teacher = client.task.resident("teacher")
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    start = client.task.initial_weights
    for name, tensor in teacher.state_dict().items():
        assert torch.equal(tensor, start[name] + 0.01)


@pytest.mark.parametrize("resample", [True, False])
def test_the_generator_receives_no_gradient_from_the_students_loss(
    settings: Settings, resample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    step = Client.step

    def watched(self: Client, loss: torch.Tensor) -> None:
        generator = self.task.resident("generator")
        generator.zero_grad(set_to_none=True)
        step(self, loss)
        seen.append(all(p.grad is None for p in generator.parameters()))

    monkeypatch.setattr(Client, "step", watched)
    one_update(settings, fedkf.FedKF(resample=resample))
    assert seen
    assert all(seen)


def test_the_generator_learns_what_its_loss_asks_for(settings: Settings) -> None:
    """After some training the generated samples are surer and cover the classes more evenly."""
    settings["federation"].update(local_epochs=60, lr=1e-6)
    algorithm = fedkf.FedKF(lambda1=1.0, lambda2=0.0)
    client = one_update(settings, algorithm)
    task = client.task
    generation = task.part(Generation)
    noise = torch.randn(64, generation.noise, generator=torch.Generator().manual_seed(0))
    losses = []
    for weights in (generation.initial(task), client.state["generator"]):  # type: ignore[index]
        generator = task.load("generator", weights).train()
        losses.append(algorithm.generator_loss(*judge(task.resident("teacher"), generator(noise))))
    assert losses[1] < losses[0]


def test_generator_and_adam_persist_across_rounds_and_never_leave(settings: Settings) -> None:
    first = one_update(settings, fedkf.FedKF())
    assert first.state is not None
    assert set(first.state.kinds.values()) == {"private"}
    assert set(first.upload_.kinds) == {"weights", "monitoring"}  # type: ignore[attr-defined]
    steps = {k: v.item() for k, v in first.state["adam"].items() if k.startswith("step:")}
    assert set(steps.values()) == {first.steps}

    second = make_client(settings, 3, Payload.from_bytes(first.state.to_bytes()))
    down = Payload(weights=second.task.initial_weights)
    fedkf.FedKF(teacher="aca").local_update(second, down)
    assert second.state is not None
    again = {v.item() for k, v in second.state["adam"].items() if k.startswith("step:")}
    assert again == {first.steps + second.steps}


def test_fidelity_sets_every_option_and_explicit_values_win(settings: Settings) -> None:
    text, released = (resolve(settings, {"fidelity": f}) for f in ("text", "released"))
    assert text.algorithm.model_dump() == {
        "name": "fedkf",
        "gamma": 1.0,
        "lambda1": 0.1,
        "lambda2": 0.1,
        "teacher": "oca",
        "first_round": "distil",
        "resample": True,
        "entropy": "sum",
        "activation": "sum",
        "adversarial": False,
    }
    changed = {"first_round": "plain", "resample": False, "entropy": "scaled", "activation": "mean"}
    assert released.algorithm.model_dump() == {**text.algorithm.model_dump(), **changed}
    assert (text.federation.steps, released.federation.steps) == ("own", "equal")
    assert (text.overall.scope, released.overall.scope) == ("all", "seen")
    assert (text.generator.name, released.generator.name) == ("dcgan", "released")
    source = load_source(text)
    partitions = [settle(config, source).data.partition for config in (text, released)]
    assert partitions == ["dirichlet", "dirichlet-balanced"]
    mixed = resolve(settings, {"fidelity": "released", "algorithm.resample": True})
    assert mixed.algorithm.model_dump()["resample"] is True


def test_the_released_first_round_is_plain_and_sends_one_model(settings: Settings) -> None:
    records = fedkf.run(settings, fidelity="released", rounds=2).history
    assert "kl" not in records[0]["losses"]
    assert "kl" in records[1]["losses"]
    assert records[1]["bytes"]["down"] == 2 * records[0]["bytes"]["down"]
