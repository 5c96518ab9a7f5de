"""Distillation in one place: what a student is shown, and what it is asked to match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Outcome
from safetensors.torch import load_file

from fedkf.algorithms.fedkf import FedKF
from fedkf.core.client import Client
from fedkf.core.payload import Weights
from fedkf.core.samples import Samples
from fedkf.distillation.generators import Generation, TrainedGenerator
from fedkf.distillation.samples import Drawing, Noise
from fedkf.paper import distillation
from fedkf.paper.distill import Central, Settings, choose
from fedkf.runs import config as configuration
from fedkf.runs.setup import load_source, make_data, make_task


def quiet(what: str, done: int, steps: int) -> None:
    """Progress that nobody watches."""


def central(settings: Settings) -> Central:
    content, _ = configuration.read("digits")
    return Central(configuration.resolve(content, {"generator.width": 4}), settings)


SHORT = replace(choose("works", "lenet5"), steps=7, batch_size=16)


def test_the_papers_settings_show_generated_images_only() -> None:
    for model in ("lenet5", "resnet8"):
        paper = choose("paper", model)
        assert (paper.drawings, paper.adversarial, paper.batch_size) == (False, False, 64)


def test_the_papers_models_learn_by_plain_sgd_at_its_rates() -> None:
    """0.01 for LeNet-5 and 0.1 for ResNet-8, teacher and student alike, and its generator."""
    for model, lr in (("lenet5", 0.01), ("resnet8", 0.1)):
        paper = choose("paper", model)
        assert (paper.lr, paper.teacher_lr) == (lr, lr)
        assert (paper.momentum, paper.decay, paper.width) == (0.0, False, 128)


@pytest.mark.parametrize("decay", [False, True])
def test_learning_rates_fall_only_where_the_settings_say_so(decay: bool) -> None:
    one = central(replace(choose("paper", "lenet5"), decay=decay, width=4))
    client, rates = one.begin("student", 0.01), []

    def step(done: int) -> torch.Tensor:
        rates.append(client.optimizer.param_groups[0]["lr"])
        return one.task.loss(client.model(one.samples.images[:2]), one.samples.labels[:2])

    one.train(client, 4, step)
    assert client.optimizer.param_groups[0]["momentum"] == 0
    expected = [0.01, 0.0075, 0.005, 0.0025] if decay else [0.01] * 4
    assert rates == pytest.approx(expected)


def test_settings_may_choose_the_generators_width() -> None:
    for width, expected in ((None, 4), (6, 6)):
        one = central(replace(SHORT, width=width))
        assert one.config.generator.width == expected


@pytest.mark.parametrize("drawings", [False, True])
def test_the_generator_learns_after_every_step_but_the_last(drawings: bool) -> None:
    steps = []

    class Counting(TrainedGenerator):
        def learn(self, loss: torch.Tensor) -> None:
            steps.append(loss)
            super().learn(loss)

    one = central(replace(SHORT, drawings=drawings))
    one.study("student", one.first_weights("teacher"), Counting, quiet)
    assert len(steps) == SHORT.steps - 1


def test_drawings_leave_the_generator_alone() -> None:
    made = []
    for drawings in (False, True):
        one = central(replace(SHORT, drawings=drawings, steps=3))
        made.append(one.study("student", one.first_weights("teacher"), TrainedGenerator, quiet))
    (_, _, plain), (_, _, drawn) = made
    assert isinstance(plain, TrainedGenerator)
    assert isinstance(drawn, TrainedGenerator)
    for a, b in zip(plain.generator.parameters(), drawn.generator.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_student_on_noise_is_shown_noise_only() -> None:
    drawn = []

    class Counting(Noise):
        def draw(self) -> torch.Tensor:
            drawn.append(super().draw())
            return drawn[-1]

    one = central(SHORT)
    one.study("student on noise", one.first_weights("teacher"), Counting, quiet)
    assert len(drawn) == SHORT.steps


def test_drawings_are_repeatable_images_of_the_datas_shape() -> None:
    one = central(replace(SHORT, batch_size=10))  # not a multiple of the number of scales

    def draw() -> torch.Tensor:
        client = Client(1, 1, one.samples, one.task)
        return Drawing(client).make()

    x = draw()
    assert x.shape == (10, *one.task.shape)
    assert 0 <= x.min() < 0.1
    assert 0.9 < x.max() <= 1
    assert torch.equal(x, draw())


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """Images that are bright above or below, with a target that is 0 or 1."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = random.random((200, 16, 16)).astype(np.float32) * 0.5
    images[labels == 0, :8] += 0.5
    images[labels == 1, 8:] += 0.5
    np.savez(tmp_path / "halves.npz", images=images, labels=labels)
    return tmp_path / "halves.npz"


class Real(Samples):
    """The data itself, so that whoever is taught at all learns what the teacher knows."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.images = client.data.images

    def draw(self) -> torch.Tensor:
        return self.images


def test_a_yes_or_no_is_taught_and_learned(halves: Path) -> None:
    content = {"data": {"source": "npz", "path": str(halves), "task": "binary"}}
    short = replace(SHORT, steps=80, lr=0.1, teacher_epochs=8, teacher_lr=0.05, width=4)
    one = Central(configuration.resolve(content, {"model.name": "lenet5"}), short)
    taught = one.teach(quiet)
    assert one.accuracy(one.task.load("student", taught)) == 1
    accuracy, curve, samples = one.study("student on noise", taught, Real, quiet)
    assert accuracy == 1
    assert curve[0][1] < 1
    images = one.averages(taught, samples)
    for rows in images.values():
        bright = rows[:, 0, :8].mean((1, 2)) - rows[:, 0, 8:].mean((1, 2))
        assert bright == pytest.approx([0.5, -0.5], abs=0.05)


def test_the_teacher_weighs_classes_as_a_client_does(halves: Path) -> None:
    content = {"data": {"source": "npz", "path": str(halves)}, "model": {"name": "lenet5"}}
    short, made = replace(SHORT, teacher_epochs=1, width=4), []
    with np.load(halves) as kept:
        np.savez(halves, images=kept["images"][:150:2], labels=np.arange(75) % 3 // 2)
    for weights in ("none", "balanced"):
        config = configuration.resolve(content, {"data.class_weights": weights})
        made.append(Central(config, short).teach(quiet))
    assert any(not torch.equal(tensor, made[1][name]) for name, tensor in made[0].items())


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_tasks_without_classes_are_refused(
    halves: Path, cli: Callable[..., Outcome], task: str
) -> None:
    given = ("data.source=npz", f"data.path={halves}", f"data.task={task}")
    options = [word for one in given for word in ("--set", one)]
    code, _, err = cli("distill", *options, "--quiet", "--out", halves.parent / "out")
    assert code == 2
    assert f"distill needs classes, and data.task {task} has none" in " ".join(err.split())


def test_a_federation_can_start_from_the_generator_it_leaves(tmp_path: Path) -> None:
    content, _ = configuration.read("digits")
    small = {"generator.width": 4, "data.clients": 3}
    config = configuration.resolve(content, small)
    short = replace(SHORT, steps=3, teacher_epochs=1)
    distillation.kept("digits", config, short, tmp_path, quiet)
    [path] = tmp_path.glob("*.safetensors")

    def first(**overrides: str) -> Weights:
        config = configuration.resolve(content, {**small, **overrides})
        data = make_data(config, load_source(config))
        task = make_task(config, data, FedKF())
        return task.part(Generation).initial(task)

    started, random = first(**{"generator.start": str(path)}), first()
    assert all(torch.equal(tensor, started[name]) for name, tensor in load_file(path).items())
    assert not torch.equal(started["linear.weight"], random["linear.weight"])
