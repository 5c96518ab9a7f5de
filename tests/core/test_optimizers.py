"""An optimizer's memory rests in a payload and is found again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedkf.core.optimizers import memory_of, remember
from fedkf.core.payload import Payload

ENTRIES = {"step", "exp_avg", "exp_avg_sq"}


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=0.1, fused=True)


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    module(torch.ones(1, 3, 4, 4)).square().sum().backward()
    optimizer.step()


def rested(older: bool) -> list[torch.Tensor]:
    """Weights after two steps, with a rest between them."""
    torch.manual_seed(0)
    module = nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = adam(module)
    step(module, optimizer)
    memory = memory_of(optimizer, module)
    assert set(memory) == {f"{entry}:{name}" for entry in ENTRIES for name in ("weight", "bias")}
    if older:
        numbers = {"weight": 0, "bias": 1}
        pairs = ((key.split(":"), value) for key, value in memory.items())
        memory = {f"{numbers[name]}:{entry}": value for (entry, name), value in pairs}
    memory = Payload.from_bytes(Payload(adam=memory).to_bytes())["adam"]
    optimizer = adam(module)
    remember(optimizer, module, memory)
    step(module, optimizer)
    return [p.detach() for p in module.parameters()]


@pytest.mark.parametrize("older", [False, True])
def test_a_rest_changes_nothing_whichever_way_an_older_checkpoint_was_labelled(older: bool) -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = adam(module)
    step(module, optimizer)
    step(module, optimizer)
    for got, wanted in zip(rested(older), module.parameters(), strict=True):
        assert torch.equal(got, wanted)


def test_an_optimizer_without_steps_remembers_nothing() -> None:
    module = nn.Linear(2, 1)
    assert memory_of(adam(module), module) == {}
