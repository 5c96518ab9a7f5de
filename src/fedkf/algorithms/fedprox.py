"""FedProx (Li et al., 2020): a proximal term keeps local models near the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, LocalLoss, option

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload


@dataclass(frozen=True)
class FedProx(Algorithm):
    """F_k(w) + μ/2 ‖w − wᵗ‖²."""

    name: ClassVar[str] = "fedprox"
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True
    mu: float = option(0.01, "weight of the proximal term", at_least=0)

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain = super().local_loss(client, down)
        start = [(p, p.detach().clone()) for p in client.model.parameters()]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            distance = sum((p - w).square().sum() for p, w in start)
            return plain(x, y) + self.mu / 2 * distance

        return loss
