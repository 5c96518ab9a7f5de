"""Generators of images from noise, for any image size and number of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


class ImageGenerator(nn.Module):
    """Noise → a small image of `width` channels → doublings → sigmoid → normalisation."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        noise: int,
        width: int,
        mean: Sequence[float],
        std: Sequence[float],
        doublings: int,
    ) -> None:
        super().__init__()
        self.shape, self.width = shape, width
        self.start = tuple(math.ceil(side / 2**doublings) for side in shape[1:])
        self.linear = nn.Linear(noise, width * math.prod(self.start))
        for name, values in (("mean", mean), ("std", std)):
            column = torch.tensor([*values], dtype=torch.float32).view(-1, 1, 1)
            self.register_buffer(name, column, persistent=False)

    def body(self, x: Tensor) -> Tensor:
        """From the first small image to one of the full size, before the sigmoid."""
        raise NotImplementedError

    def forward(self, noise: Tensor) -> Tensor:
        x = self.linear(noise).view(-1, self.width, *self.start)
        x = self.body(x)
        top, left = (
            (have - want) // 2 for have, want in zip(x.shape[2:], self.shape[1:], strict=True)
        )
        x = x[:, :, top : top + self.shape[1], left : left + self.shape[2]]
        return (torch.sigmoid(x) - self.mean) / self.std


class ReleasedGenerator(ImageGenerator):
    """The released program's: nearest-neighbour doublings, each with a 3×3 convolution."""

    def __init__(
        self,
        shape: tuple[int, ...],
        noise: int = 100,
        width: int = 128,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
    ) -> None:
        super().__init__(shape, noise, width, mean, std, doublings=2)
        half = max(1, width // 2)
        self.norm0 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width, eps=0.8)
        self.conv2 = nn.Conv2d(width, half, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(half, eps=0.8)
        self.conv3 = nn.Conv2d(half, shape[0], 3, padding=1)
        for layer in (self.conv1, self.conv2, self.conv3):
            nn.init.normal_(layer.weight, 0.0, (2.0 / (9 * layer.out_channels)) ** 0.5)

    def body(self, x: Tensor) -> Tensor:
        x = F.interpolate(self.norm0(x), scale_factor=2)
        x = F.interpolate(F.leaky_relu(self.norm1(self.conv1(x)), 0.2), scale_factor=2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        out: Tensor = self.conv3(x)
        return out


class DCGAN(ImageGenerator):
    """The text's: transposed convolutions 4×4 with stride 2, batch norm and ReLU."""

    def __init__(
        self,
        shape: tuple[int, ...],
        noise: int = 100,
        width: int = 128,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
    ) -> None:
        super().__init__(shape, noise, width, mean, std, doublings=3)
        half = max(1, width // 2)
        self.norm0 = nn.BatchNorm2d(width)
        self.conv1 = nn.ConvTranspose2d(width, width, 4, 2, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.ConvTranspose2d(width, half, 4, 2, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(half)
        self.conv3 = nn.ConvTranspose2d(half, shape[0], 4, 2, 1)
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
