"""TERM (Li et al., 2021): the mean of the clients' losses, tilted towards the high ones.

The loss is that of the model that came down, on all of the client's training data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, option, starting_loss
from fedkf.core.payload import weighted_mean

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class TERM(Algorithm):
    """Minimises (1/t) log Σ p_k e^(t F_k): w ← Σ n_k e^(t F_k) w_k / Σ n_k e^(t F_k)."""

    name: ClassVar[str] = "term"
    continues: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("local_loss",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "local_loss/value")
    t: float = option(
        0.1, "the tilt: 0 gives FedAvg, below 0 favours low losses", at_least=-100, at_most=100
    )

    def local_update(self, client: Client, down: Payload) -> Payload:
        loss = starting_loss(client, down["weights"])
        return super().local_update(client, down).add("local_loss", {"value": loss})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        tilts = [self.t * u.number("local_loss", "value") for u in uploads]
        highest = max(tilts)  # taken off all, so that no power overflows
        return state.replace(
            weights=weighted_mean(
                (u.size * math.exp(tilt - highest), u["weights"])
                for u, tilt in zip(uploads, tilts, strict=True)
            )
        )
