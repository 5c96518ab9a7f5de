"""Losses of distillation: what a teacher says about samples, and how far a student is from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedkf.models.features import features_and_logits

if TYPE_CHECKING:
    from torch import Tensor, nn


def judge(teacher: nn.Module, samples: Tensor) -> tuple[Tensor, Tensor]:
    """The teacher's features and logits; gradients flow to samples that can learn from them."""
    with torch.set_grad_enabled(samples.requires_grad):
        return features_and_logits(teacher, samples)


def kl_loss(soft: Tensor, logits: Tensor) -> Tensor:
    """L_KL (Eq. 6): KL(teacher ‖ student), summed over classes, averaged over the batch."""
    return torch.nn.functional.kl_div(logits.log_softmax(1), soft, reduction="batchmean")
