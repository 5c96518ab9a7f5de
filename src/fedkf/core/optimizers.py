"""Local optimizers, their schedule, and their memory as tensors that can rest in a payload."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from fedkf.core.payload import Weights
    from fedkf.core.task import Training


def factor(schedule: str, round: int, rounds: int) -> float:
    """What the learning rate is multiplied by in a round, from 1 on, of so many.

    >>> [factor("cosine", t, 4) for t in (1, 3)], [factor("linear", t, 4) for t in (1, 3)]
    ([1.0, 0.5], [1.0, 0.5])
    >>> [factor("step", t, 8) for t in (4, 5, 7)]
    [1.0, 0.1, 0.010000000000000002]
    """
    done = min(1.0, (round - 1) / rounds)
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    if schedule == "linear":
        return 1 - done
    if schedule == "step":
        return 0.1 ** sum(done >= place for place in (0.5, 0.75))
    return 1.0


def make_optimizer(training: Training, module: nn.Module, round: int) -> Optimizer:
    """A new optimizer of a client's model, as the run's settings have it in this round."""
    parameters, rate = module.parameters(), training.rate(round)
    if training.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=rate,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=rate, weight_decay=training.weight_decay, fused=True)


def memory_of(optimizer: Optimizer, module: nn.Module) -> Weights:
    """What the optimizer remembers of each of the module's parameters, as `entry:parameter`."""
    return {
        f"{entry}:{name}": value.detach().cpu()
        for name, parameter in module.named_parameters()
        for entry, value in optimizer.state.get(parameter, {}).items()
    }


def remember(optimizer: Optimizer, module: nn.Module, memory: Weights) -> None:
    """Go on from what `memory_of` gave; nothing is remembered where that is empty."""
    parameters = dict(module.named_parameters())
    for key, value in memory.items():
        entry, _, name = key.partition(":")
        if entry.isdecimal():  # an older checkpoint: the parameter's number, then the entry
            entry, name = name, list(parameters)[int(entry)]
        parameter = parameters[name]
        # A memory lies as its parameter does: fused optimizers walk through both side by side.
        like = value.to(parameter.device) if entry == "step" else parameter
        optimizer.state[parameter][entry] = torch.empty_like(like).copy_(value)
