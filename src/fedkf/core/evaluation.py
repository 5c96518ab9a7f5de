"""Evaluation: which samples a model classifies correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

CHUNK = 256
"""Samples per pass; fixed, so that results do not depend on who evaluates how many at a time."""


def correct(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Which of the samples are classified correctly, as a tensor of truth values on the CPU."""
    with torch.no_grad():
        hits = [
            (model(x).argmax(1) == y).cpu()
            for x, y in zip(images.split(CHUNK), labels.split(CHUNK), strict=True)
        ]
    return torch.cat(hits)
