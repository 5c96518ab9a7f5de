"""FedVARP (Jhunjhunwala et al., 2022): old updates of the absent take out the sampling's noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import combine, subtract, towards, zeros_like
from fedkf.core.payload import weighted_mean

if TYPE_CHECKING:
    from fedkf.core.payload import Weights
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedVARP(Algorithm):
    """w ← w − η (mean over S of (Δ_k − y_k) + mean over all of y_k), then y_k ← Δ_k on S.

    Δ_k = w − w_k; y_k is a client's last Δ_k, 0 at first; means are weighted by size. Under a
    schedule y_k is over the learning rate of its round, times that of this one.
    """

    name: ClassVar[str] = "fedvarp"
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = fresh_and_stale(server, state["weights"], uploads, 1.0)
        new = towards(state["weights"], new, self.server_lr)
        return state.replace(weights=with_mean_buffers(server, uploads, new))


def fresh_and_stale(
    server: Server, start: Weights, uploads: Sequence[Upload], beta: float
) -> Weights:
    """w − mean over S of (Δ_k − β y_k) − β · mean over all of y_k; remembers the new updates."""
    updates, nothing = server.memory("updates"), zeros_like(start)
    pace = server.task.training.pace(server.round)
    everybody = updates.mean("all", nothing) or nothing
    seen = [(u.size, updates.slots[u.client]) for u in uploads if updates.counts(u.client)]
    unseen = sum(u.size for u in uploads) - sum(size for size, _ in seen)
    old = weighted_mean([*seen, (unseen, nothing)])
    fresh = weighted_mean((u.size, u["weights"]) for u in uploads)
    for upload in uploads:
        updates.put(upload.client, subtract(start, upload["weights"], pace))
    return combine(lambda f, o, e: f + beta * pace * (o - e), fresh, old, everybody)
