"""q-FFL, as q-FedAvg (Li et al., 2020): clients with a higher loss weigh more.

The loss is that of the model that came down, on all of the client's training data; local training
is as in FedAvg, L is the inverse of its learning rate, and clients count alike whatever their size.
Buffers, such as batch norm's statistics, are no part of a gradient: they are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option, starting_loss, with_mean_buffers
from fedkf.core.arithmetic import combine, powers, squared_norm, subtract

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class QFFL(Algorithm):
    """w ← w − Σ F_k^q g_k / Σ (q F_k^(q−1) ‖g_k‖² + L F_k^q) with g_k = L (w − w_k)."""

    name: ClassVar[str] = "qffl"
    assumes_sgd: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("local_loss",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "local_loss/value")
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {"released": dict(own_epochs=True)}
    q: float = option(0.1, "how much a high loss counts; 0 gives the plain mean", at_least=0)
    own_epochs: bool = option(False, "whole epochs of its own, whatever federation.steps says")

    def local_update(self, client: Client, down: Payload) -> Payload:
        before = starting_loss(client, down["weights"])
        client.start(down["weights"])
        loss = self.local_loss(client, down)
        for x, y in client.batches(own=self.own_epochs):
            client.step(loss(x, y))
        return client.upload().add("local_loss", {"value": before})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, rate = state["weights"], 1 / server.task.training.lr
        learned = {name: start[name] for name in server.task.distinct}
        total, scale = combine(torch.zeros_like, learned), 0.0
        losses = [max(float(u.number("local_loss", "value")), 1e-10) for u in uploads]
        for upload, (power, slope) in zip(uploads, powers(losses, self.q), strict=True):
            gradient = combine(lambda d: rate * d, subtract(learned, upload["weights"]))
            total = combine(lambda t, g, f=power: t + f * g, total, gradient)
            scale += slope * squared_norm(gradient) + rate * power
        new = {**start, **combine(lambda w, t: w - t / scale, learned, total)}
        return state.replace(weights=with_mean_buffers(server, uploads, new))
