"""FedFTG: its oracle, its losses by hand, and that without server steps it is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from oracle import agree
from torch import Tensor, nn, tensor
from world import State, World, copy, mean, networks

import fedkf
from fedkf.algorithms.fedftg import Ensemble, FedFTG, diversity_loss
from fedkf.distillation.generators import Generation
from fedkf.paper.operations import measure

NOISE, RATE = 3, 0.02
SETTINGS: dict[str, Any] = dict(
    server_steps=3,
    generator_steps=2,
    model_steps=2,
    server_batch=6,
    server_lr=0.5,
    lambda_cls=0.7,
    lambda_dis=1.3,
)


def tiny_generator() -> nn.Module:
    # Batch norm would undo a bias.
    first = nn.Linear(NOISE, 6, bias=False, dtype=torch.float64)
    norm, last = nn.BatchNorm1d(6, dtype=torch.float64), nn.Linear(6, 4, dtype=torch.float64)
    return nn.Sequential(first, norm, nn.Tanh(), last)


MORE = dict(parts=[Generation(tiny_generator, noise=NOISE, lr=RATE)])


class Adam:
    """As its paper has it, with the usual 0.9, 0.999 and 1e-8."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters, self.t = parameters, 0
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]

    def down(self, loss: Tensor, parameters: list[Tensor]) -> None:
        self.t += 1
        for i, g in enumerate(torch.autograd.grad(loss, parameters)):
            self.m[i] = 0.9 * self.m[i] + 0.1 * g
            self.v[i] = 0.999 * self.v[i] + 0.001 * g * g
            first, second = self.m[i] / (1 - 0.9**self.t), self.v[i] / (1 - 0.999**self.t)
            with torch.no_grad():
                parameters[i].sub_(RATE * first / (second.sqrt() + 1e-8))


def fedftg(world: World) -> Iterator[tuple[State, State]]:
    """The model after each round, and the generator with what it has for labels."""
    w, s = world.w0, SETTINGS
    generator = tiny_generator()
    generator.load_state_dict(world.initial("generator", tiny_generator))
    torch.manual_seed(world.integer("labelled generator"))
    tiny_generator()  # which is drawn first
    labels = torch.randn(3, NOISE, dtype=torch.float64)
    learns = [*generator.parameters(), labels.requires_grad_()]
    adam = Adam(learns)
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k)) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        teachers, student = [world.model(m).eval() for m in local], world.model(w).eval()
        counts = [[int((world.data[k][1] == c).sum()) for c in range(3)] for k in active]
        all_counts = [sum(column) for column in zip(*counts, strict=True)]

        def apart(x: Tensor, y: Tensor, now: Any = (teachers, student, counts)) -> Tensor:
            """Sample by sample, model by model."""
            teachers, student, counts = now
            total, says, taught = tensor(0.0).double(), student(x), [m(x) for m in teachers]
            for i, label in enumerate(y.tolist()):
                q = says[i].softmax(0)
                for own, logits in zip(counts, taught, strict=True):
                    p = logits[i].softmax(0)
                    share = own[label] / sum(c[label] for c in counts)
                    total = total + share * (p * (p / q).log()).sum() / len(y)
            return total

        def told(x: Tensor, y: Tensor, now: Any = (teachers, counts)) -> Tensor:
            teachers, counts = now
            total, taught = tensor(0.0).double(), [m(x) for m in teachers]
            for i, label in enumerate(y.tolist()):
                whole = sum(c[label] for c in counts)
                parts = [
                    own[label] / whole * logits[i]
                    for own, logits in zip(counts, taught, strict=True)
                ]
                logits = torch.stack(parts).sum(0)
                total = total + (logits.exp().sum().log() - logits[label]) / len(y)
            return total

        random = world.random("fine-tuning", t)
        for _ in range(s["server_steps"]):
            shares = tensor(all_counts).double()
            y = torch.multinomial(shares, s["server_batch"], True, generator=random)
            z = torch.randn(s["server_batch"], NOISE, generator=random, dtype=torch.float64)
            for _ in range(s["generator_steps"]):
                x = generator(z + labels[y])
                far = [
                    (x[i] - x[j]).abs().mean() * (z[i] - z[j]).square().mean()
                    for i in range(len(z))
                    for j in range(len(z))
                    if i != j
                ]
                diverse = torch.exp(-torch.stack(far).sum() / len(z) ** 2)
                loss = s["lambda_cls"] * told(x, y) + s["lambda_dis"] * diverse - apart(x, y)
                adam.down(loss, learns)
            x = generator(z + labels[y]).detach()
            for _ in range(s["model_steps"]):
                gradients = torch.autograd.grad(apart(x, y), list(student.parameters()))
                with torch.no_grad():
                    for p, g in zip(student.parameters(), gradients, strict=True):
                        p.sub_(s["server_lr"] * g)
        w = copy(student)
        made = {f"generator.{n}": p.detach().clone() for n, p in generator.named_parameters()}
        yield w, {**made, "labels": labels.detach().clone()}


@pytest.mark.parametrize("world", [networks(more=MORE), networks(norm=True, more=MORE)])
def test_it_is_its_oracle(world: World) -> None:
    expected = list(fedftg(world))
    trace = agree(world, FedFTG(**SETTINGS), [w for w, _ in expected])
    for state, (_, made) in zip(trace.states[1:], expected, strict=True):
        ours = state["generator"]
        assert all(float((ours[n] - t).abs().max()) < 1e-9 for n, t in made.items())


def test_who_counts_how_much_worked_out_by_hand() -> None:
    # Of label 0 the first model has ¾ of the samples; of label 1 the second has all.
    says: list[Any] = [nn.Linear(1, 2), nn.Linear(1, 2)]
    for model, bias in zip(says, ([math.log(3), 0.0], [0.0, 0.0]), strict=True):
        model.load_state_dict({"weight": torch.zeros(2, 1), "bias": tensor(bias)})
    ensemble = Ensemble(says, [tensor([3, 0]), tensor([1, 5])])
    assert ensemble.counts.tolist() == [4, 5]
    x, y = torch.zeros(2, 1), tensor([0, 1])
    # The student says (½, ½): KL((¾, ¼) ‖ (½, ½)) counts ¾ for label 0, and nothing for label 1.
    kl = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert ensemble.discrepancy(torch.zeros(2, 2), x, y).item() == pytest.approx(0.75 * kl / 2)
    # Logits for label 0: (¾ ln 3, 0); for label 1: (0, 0).
    first = math.log(3**0.75 + 1) - 0.75 * math.log(3)
    assert ensemble.loss(x, y).item() == pytest.approx((first + math.log(2)) / 2)


def test_the_diversity_loss_worked_out_by_hand() -> None:
    # Two samples: (3 + 5)/2 apart, their noise (4 + 16)/2: 40 for two of the four pairs.
    x, z = tensor([[0.0, 0.0], [3.0, -5.0]]), tensor([[0.0, 0.0], [2.0, 4.0]])
    assert diversity_loss(x / 20, z).item() == pytest.approx(math.exp(-1.0))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32)])
def test_images_of_any_size_are_pushed_apart(shape: tuple[int, ...]) -> None:
    """A step against the gradient makes them more diverse, which a loss of 0 could not."""
    random = torch.Generator().manual_seed(0)
    x = torch.rand(4, *shape, generator=random).requires_grad_()
    z = torch.randn(4, 100, generator=random)
    before = diversity_loss(x, z)
    before.backward()
    assert x.grad is not None
    assert diversity_loss(x - 10 * x.grad, z) < before


def test_samples_become_hard_for_the_average(settings: Settings) -> None:
    """With the model at rest, a trained generator finds inputs where it errs more than before."""
    settings["generator"]["lr"] = 0.02
    found = []

    class Watched(FedFTG):
        def fine_tune(self, task: Any, state: Any, uploads: Any, random: Any) -> Any:
            made = super().fine_tune(task, state, uploads, random)
            models = [task.load(f"teacher {k}", u["weights"]) for k, u in enumerate(uploads)]
            ensemble = Ensemble(models, [u["label_counts"]["count"] for u in uploads])
            generator = task.load("labelled generator", made["generator"]).train()
            y = torch.multinomial(ensemble.counts, 64, True, generator=random)
            z = torch.randn(64, task.part(Generation).noise, generator=random)
            with torch.no_grad():
                x = generator(z, y)
                student = task.load("student", state["weights"]).eval()
                found.append(ensemble.discrepancy(student(x), x, y).item())
            return made

    for steps in (0, 25):
        algorithm = Watched(
            server_steps=2, generator_steps=steps, model_steps=1, server_batch=16, lambda_cls=0.0
        )
        fedkf.run(settings, algorithm=algorithm, rounds=1, lr=0.2, local_epochs=5)
    before, after = found
    assert after > 1.3 * before


@pytest.mark.parametrize("model", [None, Normed])
def test_without_server_steps_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedftg", model, server_steps=0)


def test_label_counts_are_what_it_discloses_and_clients_work_as_in_fedavg() -> None:
    row = measure(FedFTG(**FedFTG.tiny))
    assert row["discloses"] == ["weights", "label_counts"]
    assert list(row["passes"].values()) == [1, 1, 0, 0]
