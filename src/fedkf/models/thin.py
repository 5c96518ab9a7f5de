"""Layers with few channels, arranged so that a CPU's vector units are full."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

VECTOR = 8
"""Channels are filled up with zeros to a multiple of this, which changes no other channel."""


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
