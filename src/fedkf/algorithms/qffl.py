"""q-FFL, as q-FedAvg (Li et al., 2020): clients with a higher loss weigh more.

The loss is that of the model that came down, on all of the client's training data; local training
is as in FedAvg, L is the inverse of its learning rate, and clients count alike whatever their size.
Buffers, such as batch norm's statistics, are no part of a gradient: they are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import (
    Algorithm,
    State,
    option,
    starting_loss,
    with_mean_buffers,
    with_shared,
)
from fedkf.core.arithmetic import combine, squared_norm, subtract

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.server import Server, Upload

DIGITS = 30.0
"""Powers of losses beyond 1e30, or below 1e-30, are taken of their ratios."""


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
        unit = unit_of(losses, self.q)
        for upload, loss in zip(uploads, losses, strict=True):
            share = loss / unit
            gradient = combine(lambda d: rate * d, subtract(learned, upload["weights"]))
            total = combine(lambda t, g, f=share**self.q: t + f * g, total, gradient)
            slope = self.q * share ** (self.q - 1) / unit
            scale += slope * squared_norm(gradient) + rate * share**self.q
        new = with_shared(server, {**start, **combine(lambda w, t: w - t / scale, learned, total)})
        return state.replace(weights=with_mean_buffers(server, uploads, new))


def unit_of(losses: Sequence[float], q: float) -> float:
    """What losses are measured in, which the rule leaves free: 1, or the highest of them where its
    power would leave float32.

    >>> unit_of([0.5, 2.0], 5.0), unit_of([0.5, 1e9], 5.0)
    (1.0, 1000000000.0)
    """
    highest = max(losses)
    return 1.0 if abs(q * math.log10(highest)) <= DIGITS else highest
