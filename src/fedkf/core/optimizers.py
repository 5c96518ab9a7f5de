"""An optimizer's memory as tensors, so that it can rest in a payload between rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from fedkf.core.payload import Weights


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
