"""FedExP (Jhunjhunwala et al., 2023): the more clients disagree, the longer the server's step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import squared_norm, subtract, towards
from fedkf.core.payload import Weights, weighted_mean

if TYPE_CHECKING:
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedExP(Algorithm):
    """w ← w − η Δ, Δ = Σ p_k Δ_k, η = max(1, Σ p_k ‖Δ_k‖² / 2(‖Δ‖² + ε)), Δ_k = w − w_k."""

    name: ClassVar[str] = "fedexp"
    private: ClassVar[bool] = True
    epsilon: float = option(0.001, "ε, which keeps steps short near the end", at_least=0)
    readout: str = option(
        "mean",
        "what is judged: the mean of the last two global models, or the last",
        choices=("mean", "last"),
    )

    def start(self, server: Server) -> State:
        state = super().start(server)
        return state.add("previous", state["weights"])

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, learned = state["weights"], server.task.distinct
        mean = weighted_mean((u.size, u["weights"]) for u in uploads)
        total = sum(u.size for u in uploads)
        moved = [u.size / total * square(start, u["weights"], learned) for u in uploads]
        below = 2 * (square(start, mean, learned) + self.epsilon)
        rate = max(1.0, sum(moved) / below) if below else 1.0  # nobody moved, nothing is added
        new = with_mean_buffers(server, uploads, towards(start, mean, rate))
        return state.replace(weights=new, previous=start)

    def model(self, state: State) -> Weights:
        last = state["weights"]
        return (
            last if self.readout == "last" else weighted_mean([(1, last), (1, state["previous"])])
        )


def square(a: Weights, b: Weights, names: Sequence[str]) -> float:
    """‖a − b‖² over the parameters: batch norm's statistics are no steps."""
    return squared_norm(subtract({n: a[n] for n in names}, {n: b[n] for n in names}))
