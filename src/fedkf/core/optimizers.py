"""An optimizer's memory as tensors, so that it can rest in a payload between rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from fedkf.core.payload import Weights


def memory_of(optimizer: Optimizer) -> Weights:
    """What the optimizer remembers of each parameter, by the parameter's number and the name."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}:{name}": tensor.detach().cpu().clone()
        for number, memory in state.items()
        for name, tensor in memory.items()
    }


def remember(optimizer: Optimizer, memory: Weights) -> None:
    """Go on from what `memory_of` gave; nothing is remembered where that is empty."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in memory.items():
        number, _, name = key.partition(":")
        state.setdefault(int(number), {})[name] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
