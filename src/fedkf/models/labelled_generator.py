"""A generator that is told which label its samples are to have."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LabelledGenerator(nn.Module):
    """Any generator of noise, shown a label as a learned vector that is added to the noise."""

    def __init__(self, generator: nn.Module, classes: int, noise: int) -> None:
        super().__init__()
        self.generator = generator
        dtype = next(generator.parameters()).dtype
        self.labels = nn.Parameter(torch.randn(classes, noise, dtype=dtype))

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        samples: Tensor = self.generator(noise + self.labels[labels])
        return samples
