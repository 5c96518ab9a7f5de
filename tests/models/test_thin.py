"""Layers with few channels compute what their plain forms compute."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedkf.models.lenet import LeNet5
from fedkf.models.thin import PooledConvolution, convolve, transposed


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
