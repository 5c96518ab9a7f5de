"""Losses of distillation: what a teacher says about samples, and how far a student is from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedkf.core.objective import kl_loss
from fedkf.models.features import features_and_logits

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["judge", "kl_loss"]


def judge(teacher: nn.Module, samples: Tensor) -> tuple[Tensor, Tensor]:
    """The teacher's features and logits; gradients flow to samples that can learn from them."""
    with torch.set_grad_enabled(samples.requires_grad):
        return features_and_logits(teacher, samples)
