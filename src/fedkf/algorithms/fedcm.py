"""FedCM (Xu et al., 2021): every local step carries on with the direction of the last round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.algorithms.fednova import effective_steps
from fedkf.core.algorithm import Algorithm, LocalLoss, State, option, with_mean_buffers
from fedkf.core.arithmetic import combine, subtract, towards, zeros_like
from fedkf.core.payload import Payload, weighted_mean

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedCM(Algorithm):
    """Local steps go down α g + (1 − α) Δ; Δ ← Σ p_k (w − w_k) / (η τ_k), τ_k the steps taken."""

    name: ClassVar[str] = "fedcm"
    assumes_sgd: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = ("weights", "steps:sizes/count")
    alpha: float = option(
        0.1, "α, what the client's own gradient counts; 1 gives FedAvg", above=0, at_most=1
    )
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def start(self, server: Server) -> State:
        weights = server.task.initial_weights
        return Payload(weights=weights, direction=zeros_like(weights))

    def broadcast(self, server: Server, state: State) -> Payload:
        return super().broadcast(server, state).add("direction", state["direction"], "weights")

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain, parameters = super().local_loss(client, down), client.model.named_parameters()
        # ⟨Δ, w⟩ has the gradient Δ, whatever the batch.
        pairs = [(p, down["direction"][name].to(p.device)) for name, p in parameters]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            carried = sum((p * d).sum() for p, d in pairs)
            return self.alpha * plain(x, y) + (1 - self.alpha) * carried

        return loss

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        return upload.add("steps", {"count": client.steps}, kind="sizes")

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, training = state["weights"], server.task.training
        steps = [
            effective_steps(int(u.number("steps", "count")), training.momentum) for u in uploads
        ]
        direction = weighted_mean(
            (u.size, combine(lambda d, r=training.lr * n: d / r, subtract(start, u["weights"])))
            for u, n in zip(uploads, steps, strict=True)
        )
        mean = weighted_mean((u.size, u["weights"]) for u in uploads)
        new = with_mean_buffers(server, uploads, towards(start, mean, self.server_lr))
        return state.replace(weights=new, direction=direction)
