"""Convolutions arranged for a CPU: its vector units full, its multiplications few.

Images of few channels are filled up to whole vectors. A wide 3×3 convolution is nine products of
the image's pixels with matrices of channels, shifted and summed. Where the kernel meets every pixel
several times, or has hardly any output channels, it takes far less time to compute the products
first and to sum them afterwards than to convolve.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

VECTOR = 8
"""Channels are filled up with zeros to a multiple of this, which changes no other channel."""
WIDE = 64
"""From so many channels on the products are quicker; below, the sums outweigh them."""
AT_ONCE = 1 << 18
"""Numbers computed before they are summed, so that they are still near the core; measured."""


# -- few channels ----------------------------------------------------------------------------------


class PooledConvolution(nn.Conv2d):
    """A convolution, 2×2 max-pooling and ReLU.

    Its output has zero channels after its own ones, up to a multiple of eight: pooling six channels
    takes more than twice as long as pooling eight. The next such layer is told that they are there.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, filled: bool = False) -> None:
        super().__init__(inputs, outputs, kernel)
        self.filled = filled

    def forward(self, x: Tensor) -> Tensor:
        before = -self.in_channels % VECTOR if self.filled else 0
        after = -self.out_channels % VECTOR
        weight = F.pad(self.weight, (0, 0, 0, 0, 0, before, 0, after))
        x = F.max_pool2d(convolve(x, weight), 2)
        if self.bias is not None:  # a constant moves no maximum: add it to a quarter of the pixels
            x = x + F.pad(self.bias, (0, after)).view(-1, 1, 1)
        return F.relu(x)


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """`conv2d(x, weight)`, with a quicker gradient by thin images on a CPU."""
    thin = x.shape[1] < VECTOR and x.device.type == "cpu" and x.requires_grad
    if thin and is_plain():
        out: Tensor = _ThinConvolution.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return F.conv2d(x, weight)


def is_plain() -> bool:
    """Whether nothing watches or changes what is computed: no export, no automatic precision."""
    return not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")


class _ThinConvolution(torch.autograd.Function):
    """The library's gradient by an image of one channel takes three times as long as this one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        need_x, need_weight = ctx.needs_input_grad
        by_weight = conv2d_weight(x, weight.shape, gradient) if need_weight else None
        return transposed(gradient, weight) if need_x else None, by_weight


def transposed(gradient: Tensor, weight: Tensor) -> Tensor:
    """`conv_transpose2d(gradient, weight)`: one matrix product, then sums of shifted images.

    The batch is the innermost dimension meanwhile, so that the sums run over long rows.
    """
    out, channels, *kernel = weight.shape
    columns = weight.flatten(1).T @ gradient.permute(1, 2, 3, 0).reshape(out, -1)
    height, width = gradient.shape[2:]
    parts = columns.view(channels, *kernel, height, width, len(gradient))
    image = columns.new_zeros(
        channels, height + kernel[0] - 1, width + kernel[1] - 1, len(gradient)
    )
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            image[:, i : i + height, j : j + width] += parts[:, i, j]
    return image.permute(3, 0, 1, 2)


# -- many channels ---------------------------------------------------------------------------------


def is_wide(x: Tensor) -> bool:
    """Whether the products are the quicker way for these images, here."""
    return x.shape[1] >= WIDE and len(x) > 0 and x.device.type == "cpu" and is_plain()


def convolve_doubled(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 3×3 convolution, padded by one, of the image with every pixel doubled both ways.

    A pixel's nine products serve all four of its copies: a quarter of the multiplications.
    """
    out: Tensor = _ConvolveDoubled.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def convolve_to_few(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 3×3 convolution, padded by one, to so few channels that the sums cost nothing."""
    out: Tensor = _ConvolveToFew.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


class _ConvolveDoubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.permute(0, 2, 3, 1).contiguous()
        ctx.save_for_backward(x, weight)
        count, height, width, channels = x.shape
        matrix = weight.permute(1, 2, 3, 0).reshape(channels, -1)
        out = x.new_empty(count, height, 2, 2 * width, len(weight))
        for part in _parts(x, len(weight)):
            torch.mm(x[part.images].flatten(0, 2), matrix, out=part.products)
            _double(part.taps.unbind(4), part.columns.unbind(4), dim=3)
            _double(part.columns.flatten(3, 4).unbind(1), out[part.images].unbind(2), dim=1)
            if bias is not None:
                out[part.images] += bias
        return out.view(count, 2 * height, 2 * width, -1).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        count, height, width, channels = x.shape
        outputs = len(weight)
        gradient = gradient.permute(0, 2, 3, 1).contiguous()
        gradient = gradient.view(count, height, 2, 2 * width, outputs)
        matrix = weight.permute(2, 3, 0, 1).reshape(-1, channels)
        by_x, by_matrix = torch.empty_like(x), torch.zeros_like(matrix)
        for part in _parts(x, outputs):
            _halve(gradient[part.images].unbind(2), part.columns.flatten(3, 4).unbind(1), dim=1)
            _halve(part.columns.unbind(4), part.taps.unbind(4), dim=3)
            torch.mm(part.products, matrix, out=by_x[part.images].flatten(0, 2))
            pixels = x[part.images].flatten(0, 2)
            torch.addmm(by_matrix, part.products.T, pixels, out=by_matrix)
        by_weight = by_matrix.view(3, 3, outputs, channels).permute(2, 3, 0, 1)
        by_bias = gradient.sum((0, 1, 2, 3)) if ctx.needs_input_grad[2] else None
        return by_x.permute(0, 3, 1, 2), by_weight, by_bias


class _Part(NamedTuple):
    """Some of the images, and room for what is computed of them: columns are doubled, then rows."""

    images: slice
    products: Tensor
    """A matrix: pixels, and the nine taps' channels."""
    taps: Tensor
    """The same: image, tap's row, row, column, tap's column, channel."""
    columns: Tensor
    """With columns doubled: image, tap's row, row, column, copy, channel."""


def _parts(x: Tensor, outputs: int) -> Iterator[_Part]:
    """All images, some at a time; the room is used again."""
    count, height, width, _ = x.shape
    most = min(count, max(1, AT_ONCE // (9 * height * width * outputs)))
    room = x.new_empty(most * height * width, 9 * outputs)
    columns = x.new_empty(most, 3, height, width, 2, outputs)
    for start in range(0, count, most):
        now = min(most, count - start)
        products = room[: now * height * width]
        taps = products.view(now, height, width, 3, 3, outputs).permute(0, 3, 1, 2, 4, 5)
        yield _Part(slice(start, start + now), products, taps, columns[:now])


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
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.permute(0, 2, 3, 1).contiguous()
        ctx.save_for_backward(x, weight)
        matrix = weight.permute(2, 3, 0, 1).reshape(-1, x.shape[3])
        products = (matrix @ x.flatten(0, 2).T).view(3, 3, len(weight), *x.shape[:3])
        out = products[1, 1].clone() if bias is None else products[1, 1] + bias.view(-1, 1, 1, 1)
        for tap, here, there in _taps(out, products):
            if tap != (1, 1):
                here += there
        return out.transpose(0, 1).contiguous(memory_format=torch.channels_last)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
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
        by_bias = gradient.sum((1, 2, 3)) if ctx.needs_input_grad[2] else None
        return by_x, by_weight, by_bias


def _taps(out: Tensor, products: Tensor) -> Iterator[tuple[tuple[int, int], Tensor, Tensor]]:
    """For every tap, the part of the image that it reaches and that of its products there."""
    height, width = out.shape[-2:]
    for i, j in product(range(3), repeat=2):
        (top, above), (left, before) = ((max(0, 1 - n), max(0, n - 1)) for n in (i, j))
        here = out[..., top : height - above, left : width - before]
        yield (i, j), here, products[i, j][..., above : height - top, before : width - left]
