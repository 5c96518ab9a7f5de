"""Convolutions as products compute what the library's convolutions compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedkf.models import products
from fedkf.models.generator import ReleasedGenerator
from fedkf.models.products import convolve_doubled, convolve_to_few

Plain = Callable[[Tensor, nn.Conv2d], Tensor]
Convolve = Callable[[Tensor, Tensor, Tensor | None], Tensor]


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
    monkeypatch.setattr(products, "AT_ONCE", at_once)
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
    generator = ReleasedGenerator((1, 28, 28), 10, products.WIDE).double()
    noise = torch.randn(3, 10, dtype=torch.float64)
    wide = generator(noise)
    monkeypatch.setattr(products, "WIDE", 10**6)
    assert torch.allclose(wide, generator(noise), rtol=1e-12, atol=1e-12)
    assert not torch.equal(wide, generator(noise)), "both were computed the same way"


def test_layouts_and_single_precision() -> None:
    layer = nn.Conv2d(64, 2, 3, padding=1)
    x = torch.randn(2, 64, 5, 5)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = convolve_doubled(x.to(memory_format=layout), layer.weight, layer.bias)
        assert torch.allclose(found, doubled(x, layer), rtol=1e-5, atol=1e-5)


def test_what_the_library_must_do_itself() -> None:
    x = torch.zeros(1, products.WIDE, 2, 2)
    assert products.is_wide(x)
    assert not products.is_wide(x[:0])
    assert not products.is_wide(x[:, 1:])
    assert not products.is_wide(x.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not products.is_wide(x)
        ReleasedGenerator((1, 8, 8), 4, products.WIDE)(torch.randn(2, 4)).sum().backward()
