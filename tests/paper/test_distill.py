"""Distillation in one place: what a student is shown, and what it is asked to match."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedkf.core.client import Client
from fedkf.core.samples import TrainedGenerator
from fedkf.models.samples import Drawing, Noise
from fedkf.paper.distill import Central, Settings, choose
from fedkf.runs import config as configuration


def quiet(what: str, done: int, steps: int) -> None:
    """Progress that nobody watches."""


def central(settings: Settings) -> Central:
    content, _ = configuration.read("digits")
    return Central(configuration.resolve(content, {"generator.width": 4}), settings)


SHORT = replace(choose("works", "lenet5"), steps=7, batch_size=16, drawings=2)


def test_the_papers_settings_show_generated_images_only_and_compare_by_kl() -> None:
    for model in ("lenet5", "resnet8"):
        paper = choose("paper", model)
        assert (paper.drawings, paper.replay, paper.adversarial, paper.adam) == (0, 0, False, False)
        assert paper.match == "kl"


@pytest.mark.parametrize(("drawings", "learnt"), [(0, 6), (2, 2)])
def test_the_generator_learns_after_its_own_batches_only(drawings: int, learnt: int) -> None:
    steps = []

    class Counting(TrainedGenerator):
        def learn(self, loss: torch.Tensor) -> None:
            steps.append(loss)
            super().learn(loss)

    one = central(replace(SHORT, drawings=drawings))
    one.study("student", one.first_weights("teacher"), Counting, quiet)
    assert len(steps) == learnt


def test_a_student_on_noise_is_shown_noise_only() -> None:
    drawn = []

    class Counting(Noise):
        def draw(self) -> torch.Tensor:
            drawn.append(super().draw())
            return drawn[-1]

    one = central(SHORT)
    one.study("student on noise", one.first_weights("teacher"), Counting, quiet)
    assert len(drawn) == SHORT.steps


def test_students_match_logits_or_probabilities() -> None:
    taught, learnt = torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 1.0]])
    assert central(SHORT).distance(taught, learnt) == 1.0
    by_kl = central(replace(SHORT, match="kl")).distance(taught, learnt)
    assert by_kl.item() == pytest.approx(0.0, abs=1e-6)  # the same probabilities


def test_drawings_are_repeatable_images_of_the_datas_shape() -> None:
    one = central(replace(SHORT, batch_size=10))  # not a multiple of the number of scales

    def draw() -> torch.Tensor:
        client = Client(1, 1, one.samples, one.task, one.task.streams)
        return Drawing(client).make()

    x = draw()
    assert x.shape == (10, *one.task.shape)
    assert 0 <= x.min() < 0.1
    assert 0.9 < x.max() <= 1
    assert torch.equal(x, draw())
