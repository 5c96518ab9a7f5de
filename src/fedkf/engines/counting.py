"""Counting: all clients' test samples in a few passes, where one process has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fedkf.core.evaluation import CHUNK
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Counts
from fedkf.core.tally import KIND, Tally


class Population(Protocol):
    """How many samples each client has."""

    @property
    def sizes(self) -> Mapping[int, int]: ...
    @property
    def test_sizes(self) -> Sequence[int]: ...


Count = Callable[[Sequence[Sequence[int]], Payload], Sequence[Payload]]
"""What `ClientHost.count` says of each group of clients."""


def count_in_groups(
    count: Count, readouts: Mapping[str, Weights], clients: Sequence[int], tested: Sequence[int]
) -> Counts:
    """Every client's correct test samples, counted in groups of a size that passes well."""
    down = Payload()
    for name, weights in readouts.items():
        down.add(name, weights, "weights")
    groups = grouped(clients, tested)
    counts: dict[str, dict[int, int]] = {name: dict.fromkeys(clients, 0) for name in readouts}
    tallies: dict[str, dict[int, Tally]] = {name: {} for name in readouts}
    for group, answer in zip(groups, count(groups, down), strict=True):
        for name, values in answer["counts"].items():
            counts[name].update(zip(group, values.tolist(), strict=True))
        for entry, stacked in answer.tensors.get(KIND, {}).items():
            name, _, statistic = entry.partition("/")
            for client, value in zip(group, stacked, strict=True):
                tallies[name].setdefault(client, {})[statistic] = value
    said = {name: [found.get(k, {}) for k in clients] for name, found in tallies.items()}
    correct = {name: list(found.values()) for name, found in counts.items()}
    return Counts(list(clients), [tested[k] for k in clients], correct, said)


def grouped(clients: Sequence[int], tested: Sequence[int]) -> list[list[int]]:
    """Neighbouring clients whose test samples make up a few passes; those without are left out."""
    groups: list[list[int]] = []
    room = 0
    for k in clients:
        if tested[k] == 0:
            continue
        if room <= 0:
            groups.append([])
            room = 2 * CHUNK
        groups[-1].append(k)
        room -= tested[k]
    return groups
