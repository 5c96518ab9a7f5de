"""Generators of images from noise, for any image size and number of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from fedkf.models.convolutions import convolve_doubled, convolve_to_few, is_wide

if TYPE_CHECKING:
    from torch import Tensor


class ImageGenerator(nn.Module):
    """Noise → a small image of `width` channels → doublings → sigmoid → normalisation."""

    doublings: ClassVar[int]
    mean: Tensor
    std: Tensor
    conv1: nn.Conv2d | nn.ConvTranspose2d

    def __init__(
        self,
        shape: tuple[int, ...],
        noise: int = 100,
        width: int = 128,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
    ) -> None:
        super().__init__()
        self.shape, self.width = shape, width
        self.start = tuple(math.ceil(side / 2**self.doublings) for side in shape[1:])
        self.linear = nn.Linear(noise, width * math.prod(self.start))
        for name, values in (("mean", mean), ("std", std)):
            column = torch.tensor([*values], dtype=torch.float32).view(-1, 1, 1)
            self.register_buffer(name, column, persistent=False)
        self.norm0 = nn.BatchNorm2d(width)
        self.make_layers(width, max(1, width // 2), shape[0])

    def make_layers(self, width: int, half: int, channels: int) -> None:
        """The layers after `norm0`, with their first weights."""
        raise NotImplementedError

    def body(self, x: Tensor) -> Tensor:
        """From the first small image to one of the full size, before the sigmoid."""
        raise NotImplementedError

    def forward(self, noise: Tensor) -> Tensor:
        x = self.linear(noise).view(-1, self.width, *self.start)
        # The layout of the weights decides that of everything after them.
        x = self.body(x.contiguous(memory_format=layout_of(self.conv1.weight)))
        top, left = (
            (have - want) // 2 for have, want in zip(x.shape[2:], self.shape[1:], strict=True)
        )
        x = x[:, :, top : top + self.shape[1], left : left + self.shape[2]]
        return (torch.sigmoid(x) - self.mean) / self.std


class DoublingConvolution(nn.Conv2d):
    """Nearest-neighbour doubling, then a 3×3 convolution: a quarter of the work for wide images.

    For others it is one transposed 4×4 convolution. A doubled image repeats every pixel, so the 3×3
    kernel meets each of them with sums of its entries: the full convolution of the flipped kernel
    with a 2×2 of ones, the same function of the same weights with 2.25 times fewer operations.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        if is_wide(x):
            return convolve_doubled(x, self.weight, self.bias)
        kernel = self.weight.flip(2, 3).transpose(0, 1)
        summed = sum(F.pad(kernel, (a, 1 - a, b, 1 - b)) for a in (0, 1) for b in (0, 1))
        assert isinstance(summed, torch.Tensor)
        summed = summed.contiguous(memory_format=layout_of(self.weight))
        return F.conv_transpose2d(x, summed, self.bias, stride=2, padding=1)


class LastConvolution(nn.Conv2d):
    """A 3×3 convolution from many channels to those of an image."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        if is_wide(x):
            return convolve_to_few(x, self.weight, self.bias)
        return super().forward(x)


class ReleasedGenerator(ImageGenerator):
    """The released program's: nearest-neighbour doublings, each with a 3×3 convolution."""

    doublings = 2

    def make_layers(self, width: int, half: int, channels: int) -> None:
        self.conv1 = DoublingConvolution(width, width)
        self.norm1 = nn.BatchNorm2d(width, eps=0.8)
        self.conv2 = DoublingConvolution(width, half)
        self.norm2 = nn.BatchNorm2d(half, eps=0.8)
        self.conv3 = LastConvolution(half, channels)
        for layer in (self.conv1, self.conv2, self.conv3):
            nn.init.normal_(layer.weight, 0.0, (2.0 / (9 * layer.out_channels)) ** 0.5)

    def body(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm1(self.conv1(self.norm0(x))), 0.2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        out: Tensor = self.conv3(x)
        return out


def layout_of(weight: Tensor) -> torch.memory_format:
    last = weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format


class DCGAN(ImageGenerator):
    """The text's: transposed convolutions 4×4 with stride 2, batch norm and ReLU."""

    doublings = 3

    def make_layers(self, width: int, half: int, channels: int) -> None:
        self.conv1 = nn.ConvTranspose2d(width, width, 4, 2, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.ConvTranspose2d(width, half, 4, 2, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(half)
        self.conv3 = nn.ConvTranspose2d(half, channels, 4, 2, 1)
        for layer in (self.conv1, self.conv2, self.conv3):
            nn.init.normal_(layer.weight, 0.0, 0.02)
        for norm in (self.norm0, self.norm1, self.norm2):
            nn.init.normal_(norm.weight, 1.0, 0.02)

    def body(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm0(x))
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        out: Tensor = self.conv3(x)
        return out
