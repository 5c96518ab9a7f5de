"""Ditto (Li et al., 2021): beside FedAvg, each client has a model of its own, held near the shared.

The readout "personal" is each client under its own model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, option
from fedkf.core.payload import Payload, Weights
from fedkf.core.task import copy_of

if TYPE_CHECKING:
    from fedkf.core.client import Client


@dataclass(frozen=True)
class Ditto(Algorithm):
    """v_k ← v_k − η (∇F_k(v_k) + λ (v_k − wᵗ)), on as many batches as w_k; w is FedAvg's."""

    name: ClassVar[str] = "ditto"
    fairness_aware: ClassVar[bool] = True
    personal_models: ClassVar[bool] = True
    penalty: float = option(1.0, "λ, how strongly personal models are held", at_least=0)

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        model = client.start(
            client.state["personal"] if client.state else client.task.initial_weights
        )
        pairs = [(p, down["weights"][name].to(p.device)) for name, p in model.named_parameters()]
        plain = self.local_loss(client, down)
        for x, y in client.batches("batches of the personal model"):
            distance = sum((p - w).square().sum() for p, w in pairs)
            client.step(plain(x, y) + self.penalty / 2 * distance)
        client.state = Payload(personal=copy_of(model))
        return upload

    def evaluate(self, client: Client, down: Payload) -> Payload:
        return super().evaluate(client, down.replace(personal=self.personal(client, down)))

    def personal(self, client: Client, readouts: Payload) -> Weights:
        """The personal model as the client left it; the shared one before its first turn."""
        return client.state["personal"] if client.state else readouts["aca"]
