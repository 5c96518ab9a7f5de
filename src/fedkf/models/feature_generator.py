"""A generator over the feature space: noise and a label → features of that class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


class FeatureGenerator(nn.Module):
    """One hidden layer with batch norm, over uniform noise beside the label's one-hot vector.

    With `relu` its features are never negative.
    """

    def __init__(
        self, classes: int, shape: tuple[int, ...], hidden: int, noise: int, relu: bool = False
    ) -> None:
        super().__init__()
        self.classes, self.shape, self.noise, self.relu = classes, shape, noise, relu
        self.hidden = nn.Linear(noise + classes, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.output = nn.Linear(hidden, math.prod(shape))

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """Noise, uniform in [0, 1]."""
        return torch.rand(count, self.noise, generator=random).to(self.output.weight.device)

    def forward(self, labels: Tensor, noise: Tensor) -> Tensor:
        x = torch.cat([noise, F.one_hot(labels, self.classes).to(noise.dtype)], 1)
        features: Tensor = self.output(F.relu(self.norm(self.hidden(x))))
        return (features.relu() if self.relu else features).view(-1, *self.shape)
