"""A model seen through a projection head, as contrastive losses see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from fedkf.core.random import GlobalStream
from fedkf.models.features import feature_shape, features_and_logits

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.payload import Weights
    from fedkf.core.task import Task


class Projected:
    """A model and a head with `outputs` values over its features; no head if that is 0.

    The head stands beside the classifier, not before it: the model stays what it was.
    """

    def __init__(
        self, task: Task, outputs: int, model: nn.Module, head: Weights, round: int
    ) -> None:
        self.model, self.lr = model, task.training.rate(round)
        # Its first weights are overwritten; drawing them must not move the caller's randomness.
        with GlobalStream(0, "cpu").active():
            self.head = make_head(task, outputs)
        self.head.load_state_dict(head)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A batch's projections and logits."""
        features, logits = features_and_logits(self.model, x)
        return self.head(features.flatten(1)), logits

    def step(self) -> None:
        """One step of plain SGD of the head, down gradients that are there already."""
        for p in self.head.parameters():
            if p.grad is not None:
                p.data.sub_(self.lr * p.grad)
        self.head.zero_grad(set_to_none=True)


def make_head(task: Task, outputs: int) -> nn.Module:
    if outputs == 0:
        return torch.nn.Identity()
    width, linear = math.prod(feature_shape(task)), torch.nn.Linear
    layers = linear(width, width), torch.nn.ReLU(), linear(width, outputs)
    return torch.nn.Sequential(*layers).to(task.device)
