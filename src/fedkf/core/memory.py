"""Memory: every client's latest weights on the server, and their exact running mean (T1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

import torch

from fedkf.core.payload import Payload, Weights
from fedkf.core.robust import Centre
from fedkf.core.versions import Versions

Scope = Literal["all", "seen"]


class Slots(Protocol):
    """A mapping from client to weights; a plain dict is one."""

    def __getitem__(self, client: int, /) -> Weights: ...
    def __setitem__(self, client: int, value: Weights, /) -> None: ...
    def __contains__(self, client: object, /) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def __len__(self) -> int: ...


class Memory:
    """Slots with one set of tensors per client, and S = Σ n_k ŵ_k over the clients seen.

    An upload costs one addition and, for a client seen before, one subtraction, however many
    clients there are. The sum is kept in float64 and summed anew from the slots after as many
    updates as there are slots, so rounding cannot build up and the cost per update stays constant.
    """

    def __init__(self, slots: Slots, sizes: Mapping[int, int]) -> None:
        self.slots, self.sizes = slots, sizes
        self.total = sum(sizes.values())
        self.quarantined: set[int] = set()
        """Clients whose slot is filled and left out of the mean until it is filled anew."""
        self._sum: Weights = {}
        self._integers: Weights = {}
        self._seen_size = 0
        self._largest = -1
        self._updates = 0

    def put(self, client: int, value: Weights) -> None:
        """Replace the client's slot."""
        size = self.sizes[client]
        if self.counts(client):
            self._add(self.slots[client], -size)
        else:
            self._seen_size += size
        self._add(value, size)
        self.slots[client] = value
        self.quarantined.discard(client)
        if self._largest < 0 or (size, -client) >= (self.sizes[self._largest], -self._largest):
            self._largest = client
            self._integers = {k: v for k, v in value.items() if not v.is_floating_point()}
        self._updates += 1
        if self._updates >= max(64, len(self.slots)):
            self._recompute()

    def put_sums(self, changes: Weights, size: int, integers: Weights) -> None:
        """Add Σ n_k (w_k − ŵ_k) of clients whose slots are with themselves.

        `size` is that of the clients seen for the first time, of whom ŵ_k is 0.
        """
        self._add(changes, 1)
        self._seen_size += size
        self._integers = integers

    def counts(self, client: int) -> bool:
        """Whether the client's slot is part of the mean."""
        return client in self.slots and client not in self.quarantined

    def quarantine(self, clients: Iterable[int]) -> None:
        """Leave these clients' slots out of the mean until they are filled anew.

        The sum is taken anew from the other slots: beside a huge lie their digits may be lost.
        """
        suspects = [client for client in clients if self.counts(client)]
        if not suspects:
            return
        self.quarantined.update(suspects)
        self._seen_size -= sum(self.sizes[client] for client in suspects)
        self._recompute()
        if self._largest in suspects:
            self._find_largest()

    def _counted(self) -> list[int]:
        return [client for client in sorted(self.slots) if client not in self.quarantined]

    def _find_largest(self) -> None:
        """Integers are those of the largest client whose slot counts."""
        self._largest = max(self._counted(), key=lambda k: (self.sizes[k], -k), default=-1)
        slot = self.slots[self._largest] if self._largest >= 0 else {}
        self._integers = {k: v for k, v in slot.items() if not v.is_floating_point()}

    def _add(self, value: Weights, factor: int) -> None:
        for name, tensor in value.items():
            if tensor.is_floating_point():
                if name not in self._sum:
                    self._sum[name] = torch.zeros(tensor.shape, dtype=torch.float64)
                self._sum[name].add_(tensor.double(), alpha=factor)

    def _recompute(self) -> None:
        self._sum, self._updates = {}, 0
        for client in self._counted():
            self._add(self.slots[client], self.sizes[client])

    def mean(self, scope: Scope, start: Weights, centre: Centre | None = None) -> Weights | None:
        """The size-weighted mean of the slots, or None while none is filled.

        `seen` takes the clients seen so far; `all` lets every other client stand in with `start`.
        A robust `centre` stands in for the mean of the clients seen; it reads all slots.
        """
        if not self._seen_size:
            return None
        sums, integers = self._sum, self._integers
        if centre is not None:
            middle = centre([self.slots[client] for client in self._counted()])
            sums = {name: middle[name].double() * self._seen_size for name in self._sum}
            integers = middle
        left_out = sum(self.sizes[client] for client in self.quarantined)
        absent = self.total - left_out - self._seen_size if scope == "all" else 0
        mean: Weights = {}
        for name, first in start.items():
            if name in sums:
                total = sums[name] + absent * first.double()
                mean[name] = (total / (self._seen_size + absent)).to(first.dtype)
            else:
                mean[name] = integers[name]
        return mean

    def state(self) -> Payload:
        """What a checkpoint keeps beside the slots."""
        about: dict[str, int] = {
            "seen": self._seen_size,
            "largest": self._largest,
            "updates": self._updates,
            "total": self.total,
        }
        kept = Payload(sum=self._sum, integers=self._integers, about=about)
        if self.quarantined:
            kept.add("quarantined", {"clients": torch.tensor(sorted(self.quarantined))})
        return kept

    def restore(self, state: Payload) -> None:
        self._sum, self._integers = state["sum"], state["integers"]
        self._seen_size = int(state.number("about", "seen"))
        self._largest = int(state.number("about", "largest"))
        self._updates = int(state.number("about", "updates"))
        if "quarantined" in state:
            self.quarantined = set(state["quarantined"]["clients"].tolist())


class SlotFiles:
    """Slots as files: memory does not grow with the number of clients."""

    def __init__(self, versions: Versions, version: Callable[[], str]) -> None:
        self.versions, self.version = versions, version

    def __getitem__(self, client: int) -> Weights:
        return self.versions.load(client, self.versions.latest[client])["weights"]

    def __setitem__(self, client: int, value: Weights) -> None:
        version = self.version()
        self.versions.save(client, version, Payload(weights=value))
        self.versions.accept(client, version)

    def __contains__(self, client: object) -> bool:
        return client in self.versions.latest

    def __iter__(self) -> Iterator[int]:
        return iter(self.versions.latest)

    def __len__(self) -> int:
        return len(self.versions.latest)
