"""Who takes part in a round: as many as the fraction says, uniformly, and anew every round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedkf.core.federation import Federation
from fedkf.core.random import Streams
from fedkf.core.schedule import Schedule, active_clients


def selections(clients: int, fraction: float, rounds: int, seed: int = 0) -> list[list[int]]:
    """What the round loop chooses; it looks at the sizes, the streams and the schedule only."""
    server = SimpleNamespace(sizes=dict.fromkeys(range(clients), 1), streams=Streams(seed))
    loop: Any = SimpleNamespace(server=server, schedule=Schedule(rounds, fraction), budget=None)
    return [Federation.select(loop, round) for round in range(1, rounds + 1)]


@pytest.mark.parametrize(
    ("fraction", "clients", "count"),
    [(0.2, 20, 4), (0.5, 5, 3), (0.25, 10, 3), (0.01, 10, 1), (0.04, 10, 1), (1.0, 7, 7)],
)
def test_as_many_as_the_fraction_says_halves_up_and_one_at_least(
    fraction: float, clients: int, count: int
) -> None:
    assert active_clients(fraction, clients) == count
    assert {len(chosen) for chosen in selections(clients, fraction, 5)} == {count}


def test_nobody_is_chosen_twice_and_ids_come_in_order() -> None:
    for chosen in selections(12, 0.5, 50):
        assert chosen == sorted(set(chosen))


def test_over_many_rounds_every_client_is_chosen_alike() -> None:
    """400 rounds of 3 in 10: 120 turns each, give or take five standard deviations of 9.2."""
    turns = np.bincount(np.concatenate(selections(10, 0.3, 400)), minlength=10)
    assert np.abs(turns - 120).max() < 46


def test_a_seed_gives_the_same_selections_and_another_gives_others() -> None:
    assert selections(10, 0.3, 6, seed=4) == selections(10, 0.3, 6, seed=4)
    assert selections(10, 0.3, 6, seed=4) != selections(10, 0.3, 6, seed=5)
    assert len({tuple(chosen) for chosen in selections(10, 0.3, 6)}) > 1
