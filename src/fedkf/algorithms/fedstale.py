"""FedStale (Rodio and Neglia, 2024): between FedAvg, which forgets the absent, and FedVARP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.algorithms.fedvarp import fresh_and_stale
from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import towards

if TYPE_CHECKING:
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedStale(Algorithm):
    """w ← w − η (mean over S of (Δ_k − β y_k) + β · mean over all of y_k), then y_k ← Δ_k on S."""

    name: ClassVar[str] = "fedstale"
    beta: float = option(
        0.5, "β, what old updates count: 0 gives FedAvg, 1 FedVARP", at_least=0, at_most=1
    )
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = fresh_and_stale(server, state["weights"], uploads, self.beta)
        new = towards(state["weights"], new, self.server_lr)
        return state.replace(weights=with_mean_buffers(server, uploads, new))
