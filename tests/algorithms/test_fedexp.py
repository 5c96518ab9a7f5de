"""FedExP: its oracle, a round by hand, and that a large ε is FedAvg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks import Normed, is_fedavg
from conftest import Settings
from helpers import server, upload
from oracle import agree, same
from torch import nn, tensor
from world import State, World, mean, networks, quadratics

from fedkf.algorithms.fedexp import FedExP
from fedkf.core.payload import Payload


def fedexp(world: World, epsilon: float) -> Iterator[tuple[State, State]]:
    """The mean of the last two models, and the last."""
    w, names = world.w0, world.learned()
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k)) for k in active]
        sizes = [world.sizes[k] for k in active]
        middle = mean(sizes, local)
        squares = [sum(float((w[n] - m[n]).square().sum()) for n in names) for m in local]
        own = sum(n * s for n, s in zip(sizes, squares, strict=True)) / sum(sizes)
        together = sum(float((w[n] - middle[n]).square().sum()) for n in names)
        rate = max(1.0, own / (2 * (together + epsilon)))
        new = {**middle, **{n: w[n] - rate * (w[n] - middle[n]) for n in names}}
        yield mean([1, 1], [new, w]), new
        w = new


WORLDS = [
    quadratics(),
    quadratics(momentum=0.5, weight_decay=0.05),
    networks(norm=True, lr=0.05),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_it_is_its_oracle(world: World, epsilon: float) -> None:
    expected = list(fedexp(world, epsilon))
    trace = agree(world, FedExP(epsilon=epsilon), [both for both, _ in expected])
    same([down["weights"] for down in trace.downs[2:]], [last for _, last in expected[:-1]])
    agree(world, FedExP(epsilon=epsilon, readout="last"), [last for _, last in expected])


def test_both_long_and_plain_steps_occur_in_these_worlds() -> None:
    world = WORLDS[0]
    plain = list(fedexp(world, 1e9))
    for epsilon, differ in ((0.0, True), (1e9, False)):
        found = [
            float((a[1]["w"] - b[1]["w"]).abs().max()) > 1e-6
            for a, b in zip(fedexp(world, epsilon), plain, strict=True)
        ]
        assert any(found) == differ


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    # Δ = (4, −2), p = (¾, ¼): mean 2.5; Σ p Δ² = 12 + 1 = 13. ε = 0: η = 13/12.5; ε = 1: 13/14.5.
    [(0.0, 10 - 13 / 12.5 * 2.5), (1.0, 7.5)],
)
def test_a_round_worked_out_by_hand(epsilon: float, expected: float) -> None:
    uploads = [upload(0, 3, [6.0]), upload(1, 1, [12.0])]
    state = Payload(weights={"w": tensor([10.0])}, previous={"w": tensor([20.0])})
    new = FedExP(epsilon=epsilon).aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(expected)
    assert FedExP().model(new)["w"].item() == pytest.approx((expected + 10) / 2)


def test_a_round_in_which_nobody_moves_changes_nothing() -> None:
    state = Payload(weights={"w": tensor([10.0])}, previous={"w": tensor([20.0])})
    new = FedExP(epsilon=0.0).aggregate(server(), state, [upload(0, 3, [10.0])])
    assert new["weights"]["w"].item() == 10.0


@pytest.mark.parametrize("model", [None, Normed])
def test_with_a_large_epsilon_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    options: dict[str, Any] = dict(epsilon=1e9, readout="last")
    is_fedavg(settings, tmp_path, "fedexp", model, **options)
