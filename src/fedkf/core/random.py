"""Random streams derived from (seed, purpose, round, client), so that order never matters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from fedkf.core.determinism import exact


class Streams:
    """All randomness of a run. Equal arguments give equal streams, in any process, in any order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _sequence(self, purpose: str, round: int, client: int) -> np.random.SeedSequence:
        digest = hashlib.sha256(purpose.encode()).digest()
        return np.random.SeedSequence(
            [self.seed, int.from_bytes(digest[:8], "little"), round, client + 1]
        )

    def numpy_generator(
        self, purpose: str, round: int = 0, client: int = -1
    ) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self._sequence(purpose, round, client)))

    def integer(self, purpose: str, round: int = 0, client: int = -1) -> int:
        state = self._sequence(purpose, round, client).generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(1))

    def torch_generator(self, purpose: str, round: int = 0, client: int = -1) -> torch.Generator:
        """A generator on the CPU: the same numbers whatever device the work runs on."""
        return torch.Generator().manual_seed(self.integer(purpose, round, client))


class GlobalStream:
    """PyTorch's global random state, for layers that draw from it (dropout).

    Entering swaps a state of our own in, leaving keeps it for the next time, so that work inside
    and outside never disturb each other.
    """

    def __init__(self, seed: int, device: str) -> None:
        self._seed, self._device = seed, device
        self._cuda = device if device.startswith("cuda") else None
        self.ours: list[torch.Tensor] | None = None
        """Our state while it rests; None before the first time."""

    def current(self) -> list[torch.Tensor]:
        """PyTorch's state now, whosever it is."""
        states = [torch.get_rng_state()]
        return [*states, torch.cuda.get_rng_state(self._cuda)] if self._cuda else states

    def set_current(self, states: list[torch.Tensor]) -> None:
        torch.set_rng_state(states[0])
        if self._cuda:
            torch.cuda.set_rng_state(states[1], self._cuda)

    def _begin(self) -> None:
        if self._device == "cpu":  # torch.manual_seed would move the streams of GPUs as well
            torch.default_generator.manual_seed(self._seed)
        else:
            torch.manual_seed(self._seed)

    @contextmanager
    def active(self) -> Iterator[None]:
        theirs = self.current()
        if self.ours is None:
            self._begin()
        else:
            self.set_current(self.ours)
        try:
            with exact(self._device):
                yield
        finally:
            self.ours = self.current()
            self.set_current(theirs)
