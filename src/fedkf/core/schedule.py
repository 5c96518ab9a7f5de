"""Schedule: how many rounds there are and who takes part in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fedkf.core.availability import Availability
from fedkf.core.memory import Scope
from fedkf.core.overall import Inactive
from fedkf.metrics.sites import Judgement


@dataclass(frozen=True)
class Schedule:
    """How many rounds, who takes part, when to evaluate and to checkpoint."""

    rounds: int
    fraction: float = 1.0
    evaluate_every: int = 1
    checkpoint_every: int = 1
    scope: Scope = "all"
    evaluate_clients: int | None = None
    inactive: Inactive = "slot"
    oversample: float = 1.0
    """How many times as many clients are asked as a round takes answers from."""
    availability: Availability | None = None
    """Who can be chosen; None means always all."""
    personal: bool = False
    """After the last round, clients also judge models that they made their own."""
    judged: bool = True
    """Whether models are evaluated at all."""
    judgement: Judgement = field(default_factory=Judgement)
    """What clients say of models on their test samples."""


def active_clients(fraction: float, clients: int) -> int:
    """m = max(1, round(C·K)), halves rounded up.

    >>> active_clients(0.29, 50)
    15
    """
    return max(1, math.floor(round(fraction * clients, 9) + 0.5))


def asked_clients(active: int, oversample: float, clients: int) -> int:
    """⌈oversample · m⌉ of those there are; a product that is whole is not rounded up.

    >>> asked_clients(10, 1.1, 100)
    11
    """
    return min(clients, math.ceil(round(active * oversample, 9)))
