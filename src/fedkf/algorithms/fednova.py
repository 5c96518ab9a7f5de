"""FedNova (Wang et al., 2020): local progress is divided by the number of steps that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, with_mean_buffers
from fedkf.core.arithmetic import combine, subtract
from fedkf.core.payload import weighted_mean

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedNova(Algorithm):
    """w ← w − (Σ p_k τ_k) Σ p_k (w − w_k) / τ_k, with τ_k the norm of the steps' weights."""

    name: ClassVar[str] = "fednova"
    assumes_sgd: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = ("weights", "steps:sizes/count")

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        return upload.add("steps", {"count": client.steps}, kind="sizes")

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, momentum = state["weights"], server.task.training.momentum
        norms = [effective_steps(int(u.number("steps", "count")), momentum) for u in uploads]
        total = sum(u.size for u in uploads)
        effective = sum(u.size / total * n for u, n in zip(uploads, norms, strict=True))
        direction = weighted_mean(
            (u.size, combine(lambda d, n=n: d / n, subtract(start, u["weights"])))
            for u, n in zip(uploads, norms, strict=True)
        )
        new = combine(lambda w, d: w - effective * d, start, direction)
        return state.replace(weights=with_mean_buffers(server, uploads, new))


def effective_steps(steps: int, momentum: float) -> float:
    """‖a‖₁: each step counts once, and under momentum for what it adds to later ones too."""
    if momentum == 0:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
