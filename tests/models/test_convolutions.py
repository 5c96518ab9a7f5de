"""Rearranged convolutions compute what the library's convolutions compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedkf.models import convolutions
from fedkf.models.convolutions import (
    PooledConvolution,
    convolve,
    convolve_doubled,
    convolve_to_few,
    transposed,
)
from fedkf.models.generator import ReleasedGenerator
from fedkf.models.lenet import LeNet5

Plain = Callable[[Tensor, nn.Conv2d], Tensor]
Convolve = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def plainly(layer: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
    return F.relu(F.max_pool2d(F.conv2d(x, layer.weight, layer.bias), 2))


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 28, 31), (9, 17, 20)])
def test_a_pooled_convolution_is_convolution_pooling_and_relu(shape: tuple[int, ...]) -> None:
    layer = PooledConvolution(shape[0], 6, 5).double()
    x = torch.randn(4, *shape, dtype=torch.float64).relu().requires_grad_()  # equal pixels, too
    ours, theirs = layer(x), plainly(layer, x)
    assert ours.shape[1] == 8
    assert (ours[:, 6:] == 0).all()
    assert torch.allclose(ours[:, :6], theirs, rtol=1e-12, atol=1e-12)
    inputs = [x, *layer.parameters()]
    gradients = torch.autograd.grad(ours.square().sum(), inputs)
    for ours_, theirs_ in zip(
        gradients, torch.autograd.grad(theirs.square().sum(), inputs), strict=True
    ):
        assert torch.allclose(ours_, theirs_, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [32, 29, 16])
def test_lenet_is_the_plain_network(size: int) -> None:
    model = LeNet5((1, size, size), 5).double()
    x = torch.randn(3, 1, size, size, dtype=torch.float64)
    hidden = plainly(model.conv2, plainly(model.conv1, x))
    features = F.relu(model.conv3(hidden)).flatten(1)
    assert torch.allclose(model.features(x), features, rtol=1e-12, atol=1e-12)
    assert features.shape == (3, 120)


def test_the_transposed_convolution_of_thin_images() -> None:
    weight = torch.randn(8, 2, 5, 3, dtype=torch.float64)
    gradient = torch.randn(4, 8, 7, 6, dtype=torch.float64)
    expected = F.conv_transpose2d(gradient, weight)
    assert torch.allclose(transposed(gradient, weight), expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_first_and_second_order() -> None:
    x = torch.randn(2, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(8, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(convolve, (x, weight))
    assert torch.autograd.gradgradcheck(convolve, (x, weight))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("given", [1, 2, 3, 8])
def test_images_of_other_channels_are_refused(channels: int, given: int) -> None:
    model = LeNet5((channels, 32, 32), 5)
    if given == channels:
        assert model(torch.randn(2, given, 32, 32)).shape == (2, 5)
        return
    with pytest.raises(RuntimeError, match="channels"):
        model(torch.randn(2, given, 32, 32))


def test_automatic_precision() -> None:
    model, x = LeNet5((1, 32, 32), 5), torch.randn(2, 1, 32, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        model(x).float().sum().backward()
    assert x.grad is not None


def doubled(x: Tensor, layer: nn.Conv2d) -> Tensor:
    out: Tensor = layer(F.interpolate(x, scale_factor=2))
    return out


def plain(x: Tensor, layer: nn.Conv2d) -> Tensor:
    out: Tensor = layer(x)
    return out


@pytest.mark.parametrize("at_once", [1, 1000, 1 << 18], ids=["one image", "some", "all"])
@pytest.mark.parametrize("shape", [(5, 3, 4, 6), (2, 4, 1, 1), (3, 2, 7, 2)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(convolve_doubled, doubled), (convolve_to_few, plain)], ids=["x2", "few"]
)
def test_values_and_gradients(
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    shape: tuple[int, ...],
    outputs: int,
    bias: bool,
    ours: Convolve,
    theirs: Plain,
) -> None:
    monkeypatch.setattr(convolutions, "AT_ONCE", at_once)
    layer = nn.Conv2d(shape[1], outputs, 3, padding=1, bias=bias).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    expected, found = theirs(x, layer), ours(x, layer.weight, layer.bias)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    for gradient, correct in zip(
        torch.autograd.grad((found * weights).sum(), inputs),
        torch.autograd.grad((expected * weights).sum(), inputs),
        strict=True,
    ):
        assert torch.allclose(gradient, correct, rtol=1e-12, atol=1e-12)


def test_a_wide_generator_draws_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = ReleasedGenerator((1, 28, 28), 10, convolutions.WIDE).double()
    noise = torch.randn(3, 10, dtype=torch.float64)
    wide = generator(noise)
    monkeypatch.setattr(convolutions, "WIDE", 10**6)
    assert torch.allclose(wide, generator(noise), rtol=1e-12, atol=1e-12)
    assert not torch.equal(wide, generator(noise)), "both were computed the same way"


def test_layouts_and_single_precision() -> None:
    layer = nn.Conv2d(64, 2, 3, padding=1)
    x = torch.randn(2, 64, 5, 5)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = convolve_doubled(x.to(memory_format=layout), layer.weight, layer.bias)
        assert torch.allclose(found, doubled(x, layer), rtol=1e-5, atol=1e-5)


def test_what_the_library_must_do_itself() -> None:
    x = torch.zeros(1, convolutions.WIDE, 2, 2)
    assert convolutions.is_wide(x)
    assert not convolutions.is_wide(x[:0])
    assert not convolutions.is_wide(x[:, 1:])
    assert not convolutions.is_wide(x.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not convolutions.is_wide(x)
        ReleasedGenerator((1, 8, 8), 4, convolutions.WIDE)(torch.randn(2, 4)).sum().backward()
