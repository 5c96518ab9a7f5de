"""Small classifiers and a small generator for inputs that are not images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


class MLP(nn.Module):
    """Two hidden layers; the features are the second one's."""

    samples_apart: ClassVar[bool] = True

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64) -> None:
        super().__init__()
        self.hidden1 = nn.Linear(math.prod(shape), width)
        self.hidden2 = nn.Linear(width, width)
        self.linear = nn.Linear(width, classes)

    def features(self, x: Tensor) -> Tensor:
        return F.relu(self.hidden2(F.relu(self.hidden1(x.flatten(1)))))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class Linear(nn.Module):
    """A linear model, for tables with few rows; the features are the inputs."""

    samples_apart: ClassVar[bool] = True

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(math.prod(shape), classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class VectorGenerator(nn.Module):
    """Noise → inputs of any shape, each entry with mean 0 and variance 1, as normalised data."""

    def __init__(self, shape: tuple[int, ...], noise: int = 100, width: int = 128) -> None:
        super().__init__()
        self.shape = shape
        size = math.prod(shape)
        self.hidden1, self.norm1 = nn.Linear(noise, width), nn.BatchNorm1d(width)
        self.hidden2, self.norm2 = nn.Linear(width, width), nn.BatchNorm1d(width)
        self.linear, self.norm3 = nn.Linear(width, size), nn.BatchNorm1d(size, affine=False)

    def forward(self, noise: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm1(self.hidden1(noise)), 0.2)
        x = F.leaky_relu(self.norm2(self.hidden2(x)), 0.2)
        return self.norm3(self.linear(x)).view(-1, *self.shape)  # type: ignore[no-any-return]
