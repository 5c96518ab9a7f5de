"""Sums of clipped gradients: next to a loop over samples in float64, in whichever way made."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedkf.core.gradients import Some, Sums, clipped_sum, sum_one_by_one, sum_together
from fedkf.core.task import learned
from fedkf.models.cnn1d import CNN1d
from fedkf.models.lenet import LeNet5
from fedkf.models.mlp import MLP, Linear
from fedkf.models.resnet import QuarterResNet8

COUNT, CLASSES = 9, 5
Make = Callable[[], nn.Module]
OURS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "lenet5": (lambda: LeNet5((1, 32, 32), CLASSES), (1, 32, 32)),
    "lenet5 enlarged": (lambda: LeNet5((3, 8, 8), CLASSES), (3, 8, 8)),
    "mlp": (lambda: MLP((7,), CLASSES), (7,)),
    "linear": (lambda: Linear((2, 3), CLASSES), (2, 3)),
    "cnn1d": (lambda: CNN1d((3, 50), CLASSES), (3, 50)),
    "resnet8-quarter": (lambda: QuarterResNet8((3, 16, 16), CLASSES), (3, 16, 16)),
}
AT_ONCE = [name for name in OURS if name != "resnet8-quarter"]


def samples(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Some with short gradients and some with long ones."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(COUNT, *shape, generator=random) * torch.logspace(-1, 0.5, COUNT).view(
        -1, *[1] * len(shape)
    )
    return x, torch.arange(COUNT) % CLASSES


def model_of(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    make, shape = OURS[name]
    return make(), samples(shape)


def by_a_loop(model: nn.Module, data: tuple[Tensor, Tensor], clip: float, shares: Tensor) -> Sums:
    """Each sample's gradient by an ordinary pass back, in float64."""
    exact = copy.deepcopy(model).double()
    total = {name: torch.zeros_like(p) for name, p in learned(exact).items()}
    for x, y, share in zip(*data, shares, strict=True):
        exact.zero_grad()
        F.cross_entropy(exact(x[None].double()), y[None]).backward()
        gradients = {name: p.grad for name, p in learned(exact).items() if p.grad is not None}
        length = torch.cat([g.flatten() for g in gradients.values()]).norm()
        for name, gradient in gradients.items():
            total[name] += float(share) * gradient * min(1.0, clip / float(length))
    return total


def apart(a: Sums, b: Sums) -> float:
    """The largest difference, as a share of the largest number."""
    largest = max(float(t.abs().max()) for t in a.values())
    return max(float((a[name] - b[name]).abs().max()) for name in a) / largest


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("clip", [0.05, 1.0, 1e6])
@pytest.mark.parametrize("name", OURS)
def test_it_is_that_of_a_loop_over_samples(
    name: str, clip: float, layout: torch.memory_format
) -> None:
    model, (x, y) = model_of(name)
    if x.ndim == 4:
        model, x = model.to(memory_format=layout), x.to(memory_format=layout)  # type: ignore[call-overload]
    shares = torch.linspace(0.2, 1, COUNT)
    exact = by_a_loop(model, (x, y), clip, shares)
    found = clipped_sum(model, F.cross_entropy, (x, y), clip, shares)
    assert apart(exact, found) < 5e-6
    again = clipped_sum(model, F.cross_entropy, (x, y), clip, shares)
    assert all(torch.equal(found[name], again[name]) for name in found)
    one_by_one = sum_one_by_one(model, F.cross_entropy, Some(x, y, clip, shares))
    assert apart(exact, one_by_one) < 5e-6


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_promises_that_samples_do_not_meet_is_done_at_once(name: str) -> None:
    model, (x, y) = model_of(name)
    assert vars(type(model))["samples_apart"]
    assert sum_together(model, F.cross_entropy, Some(x, y, 1.0, None)) is not None


def test_a_sum_that_is_no_mean_is_right_as_well() -> None:
    """Each sample's loss is that of a batch of one, whatever a loss makes of more."""
    model, (x, y) = model_of("mlp")

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - outputs.mean(0)).square().sum() + F.cross_entropy(
            outputs, targets, reduction="sum"
        )

    some = Some(x, y, 1.0, None)
    together = sum_together(model, loss, some)
    assert together is not None
    assert apart(sum_one_by_one(model, loss, some), together) < 5e-6


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e30])
def test_an_absurd_sample_counts_as_none_or_by_the_clip(value: float) -> None:
    model, (x, y) = model_of("lenet5")
    without = clipped_sum(model, F.cross_entropy, (x[1:], y[1:]), 0.5)
    x[0] = value
    beside = clipped_sum(model, F.cross_entropy, (x, y), 0.5)
    moved = torch.cat([(beside[name] - without[name]).flatten() for name in without]).norm()
    assert moved <= 0.5 * (1 + 1e-5)


def test_frozen_parameters_have_no_part() -> None:
    model, (x, y) = model_of("mlp")
    for name in ("hidden1.weight", "hidden2.weight", "hidden2.bias"):
        model.get_parameter(name).requires_grad_(False)
    found = clipped_sum(model, F.cross_entropy, (x, y), 0.1)
    assert sorted(found) == ["hidden1.bias", "linear.bias", "linear.weight"]
    assert apart(by_a_loop(model, (x, y), 0.1, torch.ones(COUNT)), found) < 5e-6


class Apart(nn.Module):
    """A linear layer whose weights are put to use in some way."""

    samples_apart: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(F.relu(self.first(x)))
        return out


class Twice(Apart):
    """One weight, two layers: a sample's gradient is the sum of both."""

    samples_apart: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.relu(self.first(x)))


class Scaled(Apart):
    samples_apart: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(F.linear(x, 3 * self.first.weight, self.first.bias))
        return out


class Multiplied(Apart):
    """Known layers, and a use that is none of them."""

    samples_apart: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(x @ self.first.weight + self.first.bias)
        return out


class Turned(Apart):
    samples_apart: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(F.linear(x, self.first.weight.T, self.first.bias))
        return out


class Sequence(Apart):
    """A layer over the rows of a sample: its gradient is a sum of products."""

    samples_apart: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.stack([x, 2 * x], 1)).mean(1)


class Grouped(Apart):
    samples_apart: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv1d(2, 2, 2, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.grouped(F.pad(x, (0, 2)).view(-1, 2, 3)).flatten(1))


class Normalised(Apart):
    """Group normalisation of channels that are single numbers."""

    samples_apart: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.normal(x))


KINDS = [Twice, Scaled, Multiplied, Turned, Sequence, Grouped, Normalised]


@pytest.mark.parametrize("kind", KINDS)
def test_other_uses_of_parameters_are_left_to_the_way_that_takes_any(kind: type[Apart]) -> None:
    torch.manual_seed(0)
    model, (x, y) = kind(), samples((4,))
    assert sum_together(model, F.cross_entropy, Some(x, y, 0.1, None)) is None
    found = clipped_sum(model, F.cross_entropy, (x, y), 0.1)
    assert apart(by_a_loop(model, (x, y), 0.1, torch.ones(COUNT)), found) < 5e-6


class Meeting(Apart):
    """Its samples meet, and it promises nothing: an heir's promise is its own."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


def test_samples_that_would_meet_are_alone() -> None:
    torch.manual_seed(0)
    model, (x, y) = Meeting(), samples((4,))
    found = clipped_sum(model, F.cross_entropy, (x, y), 0.1)
    assert apart(by_a_loop(model, (x, y), 0.1, torch.ones(COUNT)), found) < 5e-6
