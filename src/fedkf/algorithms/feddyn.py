"""FedDyn (Acar et al., 2021): a regulariser that moves until local and global optima agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, LocalLoss, State, option, with_mean_buffers
from fedkf.core.arithmetic import combine, zeros_like
from fedkf.core.payload import Payload, Weights, weighted_mean

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """F_k(w) − ⟨g_k, w⟩ + α/2 ‖w − wᵗ‖², then g_k ← g_k − α (w_k − wᵗ).

    On the server h ← h − α Σ_S (w_k − wᵗ) / K and w ← Σ_S w_k / |S| − h/α; clients count alike.
    """

    name: ClassVar[str] = "feddyn"
    continues: ClassVar[bool] = True
    alpha: float = option(0.01, "α, how strongly local models are held", above=0)

    def start(self, server: Server) -> State:
        weights = server.task.initial_weights
        return Payload(weights=weights, correction=zeros_like(weights))

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain, parameters = super().local_loss(client, down), client.model.named_parameters()
        gradient = own_gradient(client, down)
        held = [(p, p.detach().clone(), gradient[name].to(p.device)) for name, p in parameters]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            linear = sum((p * g).sum() for p, _, g in held)
            distance = sum((p - w).square().sum() for p, w, _ in held)
            return plain(x, y) - linear + self.alpha / 2 * distance

        return loss

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        ends = own_gradient(client, down), upload["weights"], down["weights"]
        client.state = Payload(gradient=combine(lambda g, k, w: g - self.alpha * (k - w), *ends))
        return upload

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mean = weighted_mean((1, u["weights"]) for u in uploads)
        rate = self.alpha * len(uploads) / len(server.sizes)
        ends = state["correction"], mean, state["weights"]
        correction = combine(lambda h, m, w: h - rate * (m - w), *ends)
        new = combine(lambda m, h: m - h / self.alpha, mean, correction)
        new = with_mean_buffers(server, uploads, new)
        return state.replace(weights=new, correction=correction)


def own_gradient(client: Client, down: Payload) -> Weights:
    """g_k as the client left it, zero at first: its gradient where it last ended."""
    return client.state["gradient"] if client.state else zeros_like(down["weights"])
