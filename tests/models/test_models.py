"""Models and generators for any image."""

from __future__ import annotations

import pytest
import torch
from conftest import Settings
from torch import nn

import fedkf
from fedkf.core.errors import UserError
from fedkf.models.features import features_and_logits
from fedkf.models.generator import DCGAN, ImageGenerator, ReleasedGenerator
from fedkf.models.lenet import LeNet5
from fedkf.models.resnet import QuarterResNet8, ResNet8

SHAPES = [(1, 8, 8), (1, 16, 16), (1, 28, 28), (3, 32, 32), (2, 33, 45), (3, 64, 40)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [LeNet5, ResNet8, QuarterResNet8])
def test_classifiers_take_any_image(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    model = kind(shape, 7)
    x = torch.randn(2, *shape)
    features, logits = features_and_logits(model, x)
    assert logits.shape == (2, 7)
    assert features.shape == (2, {LeNet5: 120, ResNet8: 256, QuarterResNet8: 64}[kind])
    assert torch.equal(model(x), logits)


def test_lenet_is_the_released_one_at_32() -> None:
    shapes = {k: tuple(v.shape) for k, v in LeNet5((1, 32, 32), 26).state_dict().items()}
    assert shapes["conv1.weight"] == (6, 1, 5, 5)
    assert shapes["conv2.weight"] == (16, 6, 5, 5)
    assert shapes["conv3.weight"] == (120, 16, 5, 5)
    assert shapes["linear1.weight"] == (84, 120)
    assert shapes["linear2.weight"] == (26, 84)


def test_resnet_has_one_channel_a_group_and_no_bias_before_a_norm() -> None:
    model = ResNet8((3, 32, 32), 10)
    norms = [m for m in model.modules() if isinstance(m, nn.GroupNorm)]
    assert all(m.num_groups == m.num_channels for m in norms)
    assert sorted({m.num_channels for m in norms}) == [64, 128, 256]
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 9
    assert all(m.bias is None for m in convolutions)
    weight = model.block3.conv2.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.02)
    assert ResNet8((3, 32, 32), 10, width=8).linear.in_features == 32
    assert QuarterResNet8((3, 32, 32), 10).linear.in_features * 4 == model.linear.in_features


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [ReleasedGenerator, DCGAN])
@pytest.mark.parametrize("width", [1, 6])
def test_generators_make_normalised_images_of_any_shape(
    kind: type[ImageGenerator], shape: tuple[int, ...], width: int
) -> None:
    mean, std = [0.5] * shape[0], [0.25] * shape[0]
    images = kind(shape, noise=5, width=width, mean=mean, std=std)(torch.randn(3, 5))
    assert images.shape == (3, *shape)
    assert images.min() >= -2
    assert images.max() <= 2


def test_the_released_generator_has_the_released_shapes() -> None:
    state = {k: tuple(v.shape) for k, v in ReleasedGenerator((1, 32, 32)).state_dict().items()}
    assert state["linear.weight"] == (128 * 8 * 8, 100)
    assert state["conv1.weight"] == (128, 128, 3, 3)
    assert state["conv2.weight"] == (64, 128, 3, 3)
    assert state["conv3.weight"] == (1, 64, 3, 3)
    generator = ReleasedGenerator((1, 32, 32))
    assert [generator.norm0.eps, generator.norm1.eps, generator.norm2.eps] == [1e-5, 0.8, 0.8]


def test_features_of_any_module_are_the_input_of_the_last_linear_layer_to_run() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)  # defined first, runs last
            self.first = nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(torch.tanh(self.first(x)))
            return out

    model, x = Odd(), torch.randn(5, 6)
    features, logits = features_and_logits(model, x)
    assert torch.equal(features, torch.tanh(model.first(x)))
    assert torch.equal(logits, model(x))
    assert not model.head._forward_hooks


def test_a_model_without_linear_layer_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="give it methods features"):
        features_and_logits(nn.Conv2d(1, 1, 1), torch.zeros(1, 1, 2, 2))


class Doubled(torch.nn.Module):
    """Computes in double precision, whatever comes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(256, 12, dtype=torch.float64)
        self.last = torch.nn.Linear(12, 3, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x.flatten(1).double()).relu())  # type: ignore[no-any-return]


@pytest.mark.parametrize("algorithm", ["fedgen", "ccvr", "fedkf", "fedgkd", "moon"])
def test_a_model_of_another_precision_trains(settings: Settings, algorithm: str) -> None:
    result = fedkf.run(settings, algorithm=algorithm, model=Doubled, rounds=2)
    assert result.weights["aca"]["last.weight"].dtype == torch.float64
    assert result.summary["readouts"]["aca"]["amp"] > 0


def test_a_model_that_does_not_know_its_sizes_is_refused(settings: Settings) -> None:
    with pytest.raises(UserError, match=r"Sequential has lazy layers.*nn\.LazyLinear"):
        fedkf.run(settings, model=lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)))
