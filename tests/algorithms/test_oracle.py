"""The harness itself: plain FedAvg and T1 written out, and that a wrong oracle is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from oracle import agree, run, same
from world import State, World, mean, networks, quadratics

import fedkf


def fedavg(world: World) -> Iterator[State]:
    w = world.w0
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k)) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        yield w


def overall(world: World, scope: str) -> Iterator[State]:
    slots: dict[int, State] = {}
    for t, (active, w) in enumerate(zip(world.active, [world.w0, *fedavg(world)], strict=False), 1):
        slots |= {k: world.train(w, world.batches(t, k)) for k in active}
        held = {k: slots.get(k, world.w0) for k in range(world.clients)}
        who = held if scope == "all" else slots
        largest = max(slots, key=lambda k: world.sizes[k])  # whose integers count
        order = sorted(who, key=lambda k: k != largest)
        result = mean([world.sizes[k] for k in order], [held[k] for k in order])
        yield {n: v if v.is_floating_point() else slots[largest][n] for n, v in result.items()}


WORLDS = {
    "quadratics": quadratics(),
    "momentum and decay": quadratics(momentum=0.8, weight_decay=0.05),
    "networks": networks(momentum=0.5),
    "batch norm": networks(norm=True),
}


@pytest.mark.parametrize("name", WORLDS)
def test_fedavg_is_its_oracle(name: str) -> None:
    agree(WORLDS[name], fedkf.FedAvg(), fedavg(WORLDS[name]))


@pytest.mark.parametrize("scope", ["all", "seen"])
@pytest.mark.parametrize("name", WORLDS)
def test_t1_is_its_oracle(name: str, scope: Any) -> None:
    trace = run(WORLDS[name], fedkf.FedAvg(), scope=scope)
    assert trace.overall[0] is None
    same(trace.overall[1:], overall(WORLDS[name], scope))


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.11}, {"momentum": 0.1}, {"epochs": 1}, {"batch": 5}, {"seed": 6}]
)
def test_an_oracle_of_another_world_does_not_agree(wrong: dict[str, Any]) -> None:
    world = quadratics()
    with pytest.raises(AssertionError, match="round 1"):
        agree(world, fedkf.FedAvg(), fedavg(world.but(**wrong)))
