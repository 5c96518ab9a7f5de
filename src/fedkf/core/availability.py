"""Availability: which clients can be chosen in a round, for rehearsals of uneven participation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedkf.core.random import Streams


class Availability(Protocol):
    """Who is there; the same for the same seed and round, however often it is asked."""

    def clients(self, round: int, total: int, streams: Streams) -> Sequence[int]: ...


@dataclass(frozen=True)
class Rate:
    """Each client is there with this probability, in every round anew."""

    rate: float

    def clients(self, round: int, total: int, streams: Streams) -> list[int]:
        drawn = streams.numpy_generator("availability", round).random(total)
        return [client for client, value in enumerate(drawn.tolist()) if value < self.rate]


@dataclass(frozen=True)
class Trace:
    """Who was there, or is said to have been."""

    rounds: Mapping[int, Sequence[int]]

    def clients(self, round: int, total: int, streams: Streams) -> Sequence[int]:
        return self.rounds.get(round, ())
