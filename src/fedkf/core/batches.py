"""Batches: which of a client's samples make each batch of a turn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.task import Training


def normalises_batches(model: nn.Module) -> bool:
    """Whether a model has batch normalisation, which cannot train on a single sample."""
    return any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules())


def joinable(model: nn.Module) -> bool:
    """Whether two batches can take one pass in training as if each were alone.

    Not where a layer normalises over the batch, keeps statistics of it or draws at random.
    """
    return not any(couples(module) for module in model.modules())


def couples(layer: nn.Module) -> bool:
    """Whether what a layer does with some samples depends on others, before or beside them."""
    drops = layer.p if isinstance(layer, torch.nn.modules.dropout._DropoutNd) else 0
    # Recurrent layers and attention drop out by themselves.
    drops = drops or getattr(layer, "dropout", 0)
    return (
        isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
        or bool(getattr(layer, "track_running_stats", False))
        or (isinstance(drops, int | float) and drops > 0)
        or type(layer).__name__ in DRAWING
    )


DRAWING = ("RReLU", "FractionalMaxPool2d", "FractionalMaxPool3d")
"""Layers without a rate of dropout that draw at random, too."""


def batches_of(size: int, training: Training) -> int:
    """How many batches a turn of a client with so many samples has."""
    epoch = training.steps_per_epoch or math.ceil(size / training.batch_size)
    return training.local_epochs * epoch


def batch_indices(size: int, training: Training, random: torch.Generator) -> Iterator[Tensor]:
    """Indices of every batch of a round.

    With steps of its own, the data is shuffled and split once and every epoch repeats the split.
    With a given number of steps, batches come from a reshuffled stream without partial batches; a
    client smaller than a batch uses what it has.
    """
    batch = min(training.batch_size, size)
    if training.steps_per_epoch is None:
        split = torch.randperm(size, generator=random).split(training.batch_size)
        for _ in range(training.local_epochs):
            yield from split
        return
    wanted = training.local_epochs * training.steps_per_epoch
    while wanted > 0:
        order = torch.randperm(size, generator=random)
        full = order[: size - size % batch].split(batch)[:wanted]
        yield from full
        wanted -= len(full)
