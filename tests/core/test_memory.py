"""T1: the mean over every client's latest weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedkf.core.memory import Memory, Scope, SlotFiles
from fedkf.core.payload import Payload, Weights
from fedkf.runs.checkpoint import CheckpointFolder

CLIENTS = 30
SIZES = {k: 1 + 7 * k % 50 for k in range(CLIENTS)}


def weights(random: np.random.Generator) -> Weights:
    value = random.normal(size=(5, 4)).astype(np.float32)
    return {"w": torch.from_numpy(value), "steps": torch.tensor(int(random.integers(1000)))}


def direct(slots: dict[int, Weights], scope: Scope, start: Weights) -> torch.Tensor:
    """Algorithm 1, line 10, as it stands there."""
    clients = range(CLIENTS) if scope == "all" else sorted(slots)
    held = {k: slots.get(k, start)["w"].double() for k in clients}
    total = sum(SIZES[k] * held[k] for k in clients)
    return total / sum(SIZES[k] for k in clients)  # type: ignore[return-value]


@pytest.mark.parametrize("scope", ["all", "seen"])
def test_200_rounds_of_random_participation_with_a_resume(scope: Scope, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    start, truth = weights(random), {}
    rounds = iter(range(10_000))  # every slot a version of its own
    checkpoint = CheckpointFolder(tmp_path)

    def version() -> str:
        return str(next(rounds))

    memory = Memory(SlotFiles(checkpoint.versions("slots"), version), SIZES)
    assert memory.mean(scope, start) is None
    for round in range(1, 201):
        for k in sorted(random.choice(CLIENTS, 4, replace=False)):
            truth[int(k)] = weights(random)
            memory.put(int(k), truth[int(k)])
        mean = memory.mean(scope, start)
        assert mean is not None
        difference = (mean["w"].double() - direct(truth, scope, start)).abs().max()
        assert difference < 1e-6
        if round == 101:
            state = Payload.from_bytes(memory.state().to_bytes())
            latest = checkpoint.versions("slots").latest
            checkpoint = CheckpointFolder(tmp_path)
            checkpoint.versions("slots").restore(latest.items())
            memory = Memory(SlotFiles(checkpoint.versions("slots"), version), SIZES)
            memory.restore(state)
            again = memory.mean(scope, start)
            assert again is not None
            assert torch.equal(again["w"], mean["w"])


def test_integers_are_those_of_the_largest_client_seen() -> None:
    memory = Memory({}, {0: 5, 1: 9, 2: 9})
    start = {"steps": torch.tensor(0)}
    for client, steps, expected in [
        (0, 10, 10),
        (2, 20, 20),
        (1, 30, 30),
        (2, 40, 30),
        (0, 50, 30),
    ]:
        memory.put(client, {"steps": torch.tensor(steps)})
        mean = memory.mean("seen", start)
        assert mean is not None
        assert mean["steps"].item() == expected


def test_the_sum_is_computed_anew_from_the_slots_so_rounding_cannot_build_up() -> None:
    memory = Memory({}, {0: 1, 1: 1})
    huge, small = {"w": torch.full((1,), 1e30)}, {"w": torch.full((1,), 1.0)}
    memory.put(0, huge)
    memory.put(1, small)  # lost beside 1e30
    memory.put(0, small)
    start = {"w": torch.zeros(1)}
    broken = memory.mean("seen", start)
    for _ in range(64):
        memory.put(0, small)
    repaired = memory.mean("seen", start)
    assert broken is not None
    assert repaired is not None
    assert broken["w"].item() != 1.0
    assert repaired["w"].item() == 1.0
