"""Other readings of T1: inactive clients as the last global model, and slots that grow too old."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import torch

from fedkf.core.memory import Memory, Scope, Slots
from fedkf.core.payload import Payload, Weights, weighted_mean
from fedkf.core.robust import Centre

Inactive = Literal["slot", "global"]


def with_global(
    trained: Mapping[int, Weights],
    sizes: Mapping[int, int],
    previous: Weights,
    centre: Centre | None = None,
) -> Weights:
    """Σ_{k∉S} p_k wᵗ⁻¹ + Σ_{k∈S} p_k w_kᵗ: inactive clients stand in with the last global model.

    No slots are needed. Integer buffers are those of the largest active client. A robust `centre`
    stands in for the mean of the active clients.
    """
    if not trained:
        return dict(previous)
    active = [(sizes[k], trained[k]) for k in sorted(trained)]
    if centre is not None:
        active = [(sum(n for n, _ in active), centre([w for _, w in active]))]
    rest = sum(sizes.values()) - sum(n for n, _ in active)
    mean = weighted_mean([*active, (rest, previous)] if rest else active)
    own = max(active, key=lambda item: item[0])[1]
    return {name: t if t.is_floating_point() else own[name].clone() for name, t in mean.items()}


class FreshSlots:
    """Slots of which only those count that were filled recently enough."""

    def __init__(self, slots: Slots, now: Callable[[], int]) -> None:
        self.slots, self.now = slots, now
        self.rounds: dict[int, int] = {}
        """When each slot that counts was filled."""

    def __getitem__(self, client: int) -> Weights:
        return self.slots[client]

    def __setitem__(self, client: int, value: Weights) -> None:
        self.slots[client] = value
        self.rounds[client] = self.now()

    def __contains__(self, client: object) -> bool:
        return client in self.rounds

    def __iter__(self) -> Iterator[int]:
        return iter(self.rounds)

    def __len__(self) -> int:
        return len(self.rounds)


class FreshMemory(Memory):
    """A memory in which a slot older than `oldest` rounds is as good as empty.

    The last ones that are left count until there is a fresh one: a mean of nobody would be none.
    With the scope `all` its client then stands in with the start, with `seen` it is left out.
    """

    def __init__(
        self, slots: Slots, sizes: Mapping[int, int], now: Callable[[], int], oldest: int
    ) -> None:
        self.fresh, self.oldest = FreshSlots(slots, now), oldest
        super().__init__(self.fresh, sizes)

    def mean(self, scope: Scope, start: Weights, centre: Centre | None = None) -> Weights | None:
        self._expire()
        return super().mean(scope, start, centre)

    def _expire(self) -> None:
        rounds, limit = self.fresh.rounds, self.fresh.now() - self.oldest
        stale = sorted(client for client, round in rounds.items() if round < limit)
        if not any(self.counts(client) for client in rounds.keys() - stale):
            return
        for client in stale:
            if self.counts(client):
                self._add(self.slots[client], -self.sizes[client])
                self._seen_size -= self.sizes[client]
            self.quarantined.discard(client)
            del rounds[client]
        self._updates += len(stale)
        if self._largest in stale:
            self._find_largest()

    def state(self) -> Payload:
        table = torch.tensor(sorted(self.fresh.rounds.items()), dtype=torch.long).view(-1, 2)
        return super().state().add("rounds", {"table": table})

    def restore(self, state: Payload) -> None:
        super().restore(state)
        self.fresh.rounds = {int(k): int(round) for k, round in state["rounds"]["table"]}
