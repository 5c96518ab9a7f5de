"""pFedMe (Dinh et al., 2020): clients keep models of their own, tied to the shared one by a spring.

The shared model learns where the personal ones are drawn to; the personal ones are what the
clients are to use. Both are judged: the readout "personal" is each client under its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option, part_way
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload, Weights, weighted_mean

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class PFedMe(Algorithm):
    """θ ≈ argmin f_k(θ) + λ/2 ‖θ − w_k‖², w_k ← w_k − ηλ (w_k − θ); w ← (1 − β) w + β Σ w_k / m."""

    name: ClassVar[str] = "pfedme"
    assumes_sgd: ClassVar[bool] = True
    personal_models: ClassVar[bool] = True
    penalty: float = option(15.0, "λ, how strongly personal models are held", above=0)
    personal_steps: int = option(5, "K, steps of the personal model on each batch", at_least=1)
    personal_lr: float = option(0.09, "learning rate of the personal model", above=0)
    beta: float = option(1.0, "β, how far the server moves to the clients' mean", above=0)

    def start(self, server: Server) -> State:
        lr = server.task.training.lr
        if lr * self.penalty >= 1:
            raise UserError(
                f"federation.lr is {lr:g} and algorithm.penalty {self.penalty:g}; pfedme needs a "
                "product below 1, the share of its way to the personal model that w_k moves"
            )
        return super().start(server)

    def local_update(self, client: Client, down: Payload) -> Payload:
        model, rate = client.start(down["weights"]), client.task.training.lr * self.penalty
        client.optimizer.param_groups[0]["lr"] = self.personal_lr
        pairs = [(p, p.detach().clone()) for p in model.parameters()]  # θ, and w_k
        plain = self.local_loss(client, down)
        for x, y in client.batches():
            for _ in range(self.personal_steps):
                distance = sum((p - w).square().sum() for p, w in pairs)
                client.step(plain(x, y) + self.penalty / 2 * distance)
            with torch.no_grad():
                for p, w in pairs:
                    w.sub_(rate * (w - p))
        upload = client.upload()
        client.state = Payload(personal=upload["weights"])
        ends = {id(p): w.cpu().contiguous() for p, w in pairs}
        named = model.named_parameters(remove_duplicate=False)  # each name of a shared one has it
        local = {name: ends[id(p)] for name, p in named}
        return upload.replace(weights={**upload["weights"], **local})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mean = weighted_mean((1, u["weights"]) for u in uploads)
        return state.replace(weights=part_way(server, state["weights"], mean, self.beta))

    def evaluate(self, client: Client, down: Payload) -> Payload:
        return super().evaluate(client, down.replace(personal=self.personal(client, down)))

    def personal(self, client: Client, readouts: Payload) -> Weights:
        """The personal model as the client left it; the shared one before its first turn."""
        return client.state["personal"] if client.state else readouts["aca"]
