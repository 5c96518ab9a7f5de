"""Wide 3×3 convolutions as matrix products and sums of shifted images, for a CPU.

A 3×3 convolution is nine products of the image's pixels with matrices of channels, shifted and
summed. Where the kernel meets every pixel several times, or has hardly any output channels, it
takes far less time to compute the products first and to sum them afterwards than to convolve.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

WIDE = 64
"""From so many channels on the products are quicker; below, the sums outweigh them."""
AT_ONCE = 1 << 18
"""Products at a time: so few that they are still in the core's cache when they are summed."""


def is_wide(x: Tensor) -> bool:
    """Whether the products are the quicker way for these images, here."""
    return x.shape[1] >= WIDE and x.device.type == "cpu" and not torch.compiler.is_compiling()


def convolve_doubled(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The 3×3 convolution, padded by one, of the image with every pixel doubled both ways.

    A pixel's nine products serve all four of its copies: a quarter of the multiplications.
    """
    out: Tensor = _ConvolveDoubled.apply(x, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return out


def convolve_to_few(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The 3×3 convolution, padded by one, to so few channels that the sums cost nothing."""
    out: Tensor = _ConvolveToFew.apply(x, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return out


class _ConvolveDoubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1).contiguous()
        ctx.save_for_backward(x, weight)
        count, height, width, channels = x.shape
        matrix = weight.permute(1, 2, 3, 0).reshape(channels, -1)
        out = x.new_empty(count, height, 2, 2 * width, len(bias))
        for part, products, by_tap, by_row in _parts(x, len(bias)):
            torch.mm(x[part].flatten(0, 2), matrix, out=products)
            _double(by_tap.unbind(4), by_row.unbind(4), 3)
            _double(by_row.flatten(3, 4).unbind(1), out[part].unbind(2), 1)
            out[part] += bias
        return out.view(count, 2 * height, 2 * width, -1).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        count, height, width, channels = x.shape
        outputs = len(weight)
        gradient = gradient.permute(0, 2, 3, 1).contiguous()
        gradient = gradient.view(count, height, 2, 2 * width, outputs)
        matrix = weight.permute(2, 3, 0, 1).reshape(-1, channels)
        by_x, by_matrix = torch.empty_like(x), torch.zeros_like(matrix)
        for part, products, by_tap, by_row in _parts(x, outputs):
            _halve(gradient[part].unbind(2), by_row.flatten(3, 4).unbind(1), 1)
            _halve(by_row.unbind(4), by_tap.unbind(4), 3)
            torch.mm(products, matrix, out=by_x[part].flatten(0, 2))
            by_matrix.addmm_(products.T, x[part].flatten(0, 2))
        by_weight = by_matrix.view(3, 3, outputs, channels).permute(2, 3, 0, 1)
        return by_x.permute(0, 3, 1, 2), by_weight, gradient.sum((0, 1, 2, 3))


def _parts(x: Tensor, outputs: int) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some images at a time, with room for their products, which is used again and again.

    The products as a matrix, the same as (image, tap's row, row, column, tap's column, channel),
    and room for them after the columns were doubled: (image, tap's row, row, column, 2, channel).
    """
    count, height, width, _ = x.shape
    most = min(count, max(1, AT_ONCE // (9 * height * width * outputs)))
    room = x.new_empty(most * height * width, 9 * outputs)
    doubled = x.new_empty(most, 3, height, width, 2, outputs)
    for start in range(0, count, most):
        now = min(most, count - start)
        products = room[: now * height * width]
        by_tap = products.view(now, height, width, 3, 3, outputs).permute(0, 3, 1, 2, 4, 5)
        yield slice(start, start + now), products, by_tap, doubled[:now]


def _double(taps: tuple[Tensor, ...], copies: tuple[Tensor, ...], dim: int) -> None:
    """Sum three taps' products along a dimension where every place has two copies.

    The kernel reaches one place back from the first copy and one ahead from the second; its other
    two taps meet the place itself.
    """
    back, here, ahead = taps
    first, second = copies
    rest = here.shape[dim] - 1
    torch.add(here, ahead, out=first)
    torch.add(back, here, out=second)
    first.narrow(dim, 1, rest).add_(back.narrow(dim, 0, rest))
    second.narrow(dim, 0, rest).add_(ahead.narrow(dim, 1, rest))


def _halve(copies: tuple[Tensor, ...], taps: tuple[Tensor, ...], dim: int) -> None:
    """The transpose of `_double`: what gradients of the copies mean for the taps' products."""
    first, second = copies
    back, here, ahead = taps
    rest = here.shape[dim] - 1
    torch.add(first, second, out=here)
    back.copy_(second).narrow(dim, 0, rest).add_(first.narrow(dim, 1, rest))
    ahead.copy_(first).narrow(dim, 1, rest).add_(second.narrow(dim, 0, rest))


class _ConvolveToFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1).contiguous()
        ctx.save_for_backward(x, weight)
        matrix = weight.permute(2, 3, 0, 1).reshape(-1, x.shape[3])
        products = (matrix @ x.flatten(0, 2).T).view(3, 3, len(bias), *x.shape[:3])
        out = products[1, 1] + bias.view(-1, 1, 1, 1)
        for tap, here, there in _taps(out, products):
            if tap != (1, 1):
                here += there
        return out.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        outputs, channels = weight.shape[:2]
        gradient = gradient.transpose(0, 1)
        products = x.new_zeros(3, 3, *gradient.shape)
        for _, here, there in _taps(gradient, products):
            there.copy_(here)
        flat = products.view(9 * outputs, -1)
        matrix = weight.permute(2, 3, 0, 1).reshape(-1, channels)
        by_x = (flat.T @ matrix).view(x.shape).permute(0, 3, 1, 2)
        by_weight = (flat @ x.flatten(0, 2)).view(3, 3, outputs, channels).permute(2, 3, 0, 1)
        return by_x, by_weight, gradient.sum((1, 2, 3))


def _taps(out: Tensor, products: Tensor) -> Iterator[tuple[tuple[int, int], Tensor, Tensor]]:
    """For every tap, the part of the image that it reaches and that of its products there."""
    height, width = out.shape[-2:]
    for i, j in product(range(3), repeat=2):
        (top, above), (left, before) = ((max(0, 1 - n), max(0, n - 1)) for n in (i, j))
        here = out[..., top : height - above, left : width - before]
        yield (i, j), here, products[i, j][..., above : height - top, before : width - left]
