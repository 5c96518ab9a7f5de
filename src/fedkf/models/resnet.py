"""ResNet-8 with GroupNorm of one channel a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias, started from N(0, 2 / (k² · outputs))."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.normal_(layer.weight, 0.0, (2.0 / (kernel * kernel * outputs)) ** 0.5)
    return layer


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, planes, 3, stride)
        self.norm1 = nn.GroupNorm(planes, planes)
        self.conv2 = convolution(planes, planes, 3)
        self.norm2 = nn.GroupNorm(planes, planes)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != planes:
            self.shortcut = nn.Sequential(
                convolution(inputs, planes, 1, stride), nn.GroupNorm(planes, planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class ResNet8(nn.Module):
    """A stem and one block each of width, 2·width and 4·width planes; the released width is 64."""

    preferred_format = torch.contiguous_format
    """GroupNorm of single channels takes ten times as long with channels last."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(shape[0], width, 3), nn.GroupNorm(width, width))
        self.block1 = Block(width, width, 1)
        self.block2 = Block(width, 2 * width, 2)
        self.block3 = Block(2 * width, 4 * width, 2)
        self.linear = nn.Linear(4 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x.contiguous()))
        return self.block3(self.block2(self.block1(x))).mean((2, 3))  # type: ignore[no-any-return]

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class QuarterResNet8(ResNet8):
    """A quarter of the planes and about a tenth of the time on a CPU."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(shape, classes, width=16)
