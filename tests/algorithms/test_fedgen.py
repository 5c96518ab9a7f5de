"""FedGen: losses and a step by hand, a generator that learns, and that weight 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checks import Normed, is_fedavg, one_step, refuses, survives
from conftest import Outcome, Settings
from torch import nn, tensor

import fedkf
from fedkf.algorithms.fedgen import FedGen, diversity_loss
from fedkf.core.optimizers import memory_of, remember
from fedkf.core.payload import Payload
from fedkf.models.feature_generator import FeatureGenerator
from fedkf.models.features import predictor
from fedkf.paper.operations import measure


@pytest.mark.parametrize("model", [None, Normed])
def test_without_generated_features_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Any
) -> None:
    is_fedavg(settings, tmp_path, "fedgen", model, weight=0.0, server_steps=2)


def test_workers_and_a_kill_change_nothing(settings: Settings, tmp_path: Path) -> None:
    """Adam's memory, the generator and the label counts rest in the checkpoint too."""
    survives(settings, tmp_path, "fedgen", Normed, server_steps=5)


def test_a_clients_step_worked_out_by_hand() -> None:
    # Logits (a f, b f) of the feature f = x = 1, y = 0, w = (0, 0): ∇CE = (−½, ½).
    # The generator makes the feature 2 of everything, and all labels are 1: ∇ = 2 (½, −½).
    # weight ¼, η = 0.8: w = −0.8 ((−½, ½) + ¼ (1, −1)) = (0.2, −0.2)
    algorithm = FedGen(weight=0.25, hidden=3, latent=2)
    generator = FeatureGenerator(2, (1,), 3, 2).state_dict()
    generator["output.weight"].zero_()
    generator["output.bias"].fill_(2.0)
    down = Payload(weights={"weight": torch.zeros(2, 1)}, label_counts={"share": tensor([0.0, 6])})
    down.add("generator", generator, "weights")
    upload, _ = one_step(algorithm, lambda: nn.Linear(1, 2, bias=False), [[1.0]], [0], down, lr=0.8)
    assert upload["weights"]["weight"].flatten().tolist() == pytest.approx([0.2, -0.2])
    assert upload["label_counts"]["count"].tolist() == [1, 0]
    assert upload.number("monitoring", "generated") == pytest.approx(math.log(2))


def test_the_diversity_loss_worked_out_by_hand() -> None:
    noise, features = tensor([[0.0], [1.0]]), tensor([[0.0, 0.0], [2.0, 4.0]])
    # pairs (1, 2) and (2, 1): 1² · (2 + 4)/2 = 3; pairs (1, 1) and (2, 2): 0; mean 1.5
    assert diversity_loss(noise, features).item() == pytest.approx(math.exp(-1.5))


def test_who_counts_how_much_worked_out_by_hand() -> None:
    counts = tensor([[3.0, 0.0, 0.0], [1.0, 5.0, 0.0]])  # nobody holds label 2
    by_label = FedGen(ensemble="labels").shares(counts, [3, 6])
    assert by_label.tolist() == [[0.75, 0, 0], [0.25, 1, 0]]
    by_size = FedGen(ensemble="sizes").shares(counts, [3, 6])
    assert by_size.flatten().tolist() == pytest.approx([1 / 3] * 3 + [2 / 3] * 3)
    # Models that say (½, ½) and (¼, ¾) of any feature; labels 0 and 1.
    says: list[Any] = [
        lambda f: torch.zeros(2, 2),
        lambda f: tensor([[0.0, math.log(3)]]).repeat(2, 1),
    ]
    features, labels = torch.zeros(2, 4), tensor([0, 1])
    shares = tensor([[0.75, 0.0], [0.25, 1.0]])
    # label 0: ¾ ln 2 + ¼ ln 4; label 1: ln(4/3)
    expected = (0.75 * math.log(2) + 0.25 * math.log(4) + math.log(4 / 3)) / 2
    loss = FedGen().teacher_loss(says, shares, features, labels)
    assert loss.item() == pytest.approx(expected)
    # the mean of the logits is (0, ln √3): losses ln(1 + √3) and ln(1 + √3) − ln √3
    root = math.sqrt(3)
    mean = math.log(1 + root) - math.log(root) / 2
    alike = FedGen(ensemble="logits").shares(counts[:, :2], [3, 6])
    loss = FedGen(ensemble="logits").teacher_loss(says, alike, features, labels)
    assert loss.item() == pytest.approx(mean)
    # by size, 1 to 2: (0, ln 3^⅔)
    more = FedGen(ensemble="sized-logits")
    loss = more.teacher_loss(says, more.shares(counts[:, :2], [3, 6]), features, labels)
    root = 3 ** (2 / 3)
    assert loss.item() == pytest.approx(math.log(1 + root) - math.log(root) / 2)


@pytest.mark.parametrize(("steps", "right"), [(0, (0.0, 0.7)), (50, (0.95, 1.0))])
def test_trained_the_generator_makes_features_that_clients_take_for_their_labels(
    settings: Settings, steps: int, right: tuple[float, float]
) -> None:
    """What the paper's generator is for, with real uploads; untrained it makes anything."""
    taken = []

    class Watched(FedGen):
        def train_generator(
            self, task: Any, state: Payload, uploads: Any, random: torch.Generator
        ) -> Any:
            trained = super().train_generator(task, state, uploads, random)
            generator = self.generator(task, trained["generator"]).eval()
            counts = torch.stack([u["label_counts"]["count"] for u in uploads])
            labels = counts.sum(0).double().multinomial(300, True, generator=random)
            with torch.no_grad():
                features = generator(labels, generator.draw(300, random))
                for k, upload in enumerate(uploads):
                    model = task.load("student", upload["weights"]).eval()
                    seen = predictor(model, torch.zeros(1, *task.shape))(features).argmax(1)
                    leads = (counts.argmax(0) == k)[labels]  # who knows a label best is asked
                    taken.extend((seen == labels)[leads].tolist())
            return trained

    algorithm = Watched(server_steps=steps, server_lr=0.003)
    fedkf.run(settings, algorithm=algorithm, rounds=2, lr=0.1, local_epochs=5, fraction=1.0)
    last = taken[-300:]
    assert right[0] <= sum(last) / 300 <= right[1]


def test_the_first_round_is_plain_and_label_counts_are_what_is_disclosed(
    settings: Settings,
) -> None:
    run = fedkf.run(settings, algorithm="fedgen", rounds=2, server_steps=1)
    assert "generated" not in run.history[0]["losses"]
    assert "generated" in run.history[1]["losses"]
    assert "label_counts" in run.summary["disclosed"]
    row = measure(FedGen(**FedGen.tiny))
    assert row["discloses"] == ["weights", "label_counts"]
    assert tuple(row["passes"].values()) == (1.5, 1.5, 1, 0)  # the paper's table of operations
    assert row["bytes_up"] == pytest.approx(1, abs=0.01)
    assert row["bytes_down"] > 1  # the generator


def test_an_optimizer_that_rested_in_a_payload_goes_on_as_if_it_had_not() -> None:
    def steps(rest: bool) -> torch.Tensor:
        p = torch.nn.Parameter(tensor([1.0, -2.0]))
        module = torch.nn.ParameterList([p])
        optimizer = torch.optim.Adam([p], lr=0.1)
        for _ in range(4):
            if rest:
                kept = Payload(adam=memory_of(optimizer, module))
                optimizer = torch.optim.Adam([p], lr=0.1)
                remember(optimizer, module, Payload.from_bytes(kept.to_bytes())["adam"])
            optimizer.zero_grad()
            (p**3).sum().backward()
            optimizer.step()
        return p.detach()

    assert torch.equal(steps(rest=True), steps(rest=False))


def test_fidelity_chooses_whose_ensemble() -> None:
    text, released = (FedGen.create(FedGen.fidelity[f]) for f in ("text", "released"))
    assert (text.ensemble, text.server_batch) == ("labels", 32)  # type: ignore[attr-defined]
    assert (released.ensemble, released.server_batch) == ("sized-logits", 64)  # type: ignore[attr-defined]


def test_values_out_of_range_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "fedgen", "weight", -1, "a number at least 0")
    refuses(cli, "fedgen", "ensemble", "best", "one of labels, sizes, logits")
    refuses(cli, "fedgen", "server_batch", 1, "a whole number at least 2")
