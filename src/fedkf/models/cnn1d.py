"""A classifier and a generator for signals: channels × time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


class CNN1d(nn.Module):
    """Three convolutions over time; the features are a hidden layer's over a few stretches of it.

    What happens when is kept as far as `stretches` tell, so that a peak at the start of a heart
    beat and one at its end differ. The norms are over one sample each: clients have no statistics
    to agree on. Any number of channels and any length will do.
    """

    samples_apart: ClassVar[bool] = True

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        width: int = 32,
        hidden: int = 64,
        stretches: int = 8,
    ) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv1d(shape[0], width, 7, 2, 3), nn.GroupNorm(1, width)
        self.conv2, self.norm2 = nn.Conv1d(width, 2 * width, 5, 2, 2), nn.GroupNorm(1, 2 * width)
        self.conv3, self.norm3 = (
            nn.Conv1d(2 * width, 2 * width, 3, 1, 1),
            nn.GroupNorm(1, 2 * width),
        )
        self.stretches = min(stretches, math.ceil(shape[1] / 4))
        self.hidden = nn.Linear(2 * width * self.stretches, hidden)
        self.linear = nn.Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(self.norm3(self.conv3(x)))
        return F.relu(self.hidden(F.adaptive_avg_pool1d(x, self.stretches).flatten(1)))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class SignalGenerator(nn.Module):
    """Noise → a short signal of `width` channels → two doublings → a signal of any length.

    The released program's generator, along one dimension. A signal has no least and no greatest
    value, so in the sigmoid's place each channel gets mean 0 and variance 1, as normalised data.
    """

    def __init__(self, shape: tuple[int, ...], noise: int = 100, width: int = 128) -> None:
        super().__init__()
        channels, self.length = shape
        self.width, self.start = width, math.ceil(self.length / 4)
        half = max(1, width // 2)
        self.linear, self.norm0 = nn.Linear(noise, width * self.start), nn.BatchNorm1d(width)
        self.conv1 = nn.ConvTranspose1d(width, width, 4, 2, 1)
        self.norm1 = nn.BatchNorm1d(width, eps=0.8)
        self.conv2 = nn.ConvTranspose1d(width, half, 4, 2, 1)
        self.norm2 = nn.BatchNorm1d(half, eps=0.8)
        self.conv3 = nn.Conv1d(half, channels, 3, padding=1)
        self.norm3 = nn.BatchNorm1d(channels, affine=False)
        for layer in (self.conv1, self.conv2, self.conv3):  # strong enough for norms with eps 0.8
            deviation = (2.0 / (layer.kernel_size[0] * layer.out_channels)) ** 0.5
            nn.init.normal_(layer.weight, 0.0, deviation)

    def forward(self, noise: Tensor) -> Tensor:
        x = self.norm0(self.linear(noise).view(-1, self.width, self.start))
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        first = (x.shape[2] - self.length) // 2
        signal: Tensor = self.norm3(self.conv3(x)[:, :, first : first + self.length])
        return signal
