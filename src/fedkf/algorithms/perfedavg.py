"""Per-FedAvg (Fallah et al., 2020): a shared model that one step on a client's data makes its own.

Both are judged: the readout "personal" is each client under the shared model after that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.core.payload import Payload, Weights, weighted_mean
from fedkf.core.task import copy_of, everywhere, learned

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload

Batch = tuple["Tensor", "Tensor"]


@dataclass(frozen=True)
class PerFedAvg(Algorithm):
    """w ← w − η (I − α ∇²f(w, D″)) ∇f(w − α ∇f(w, D), D′), the second derivative estimated or left.

    D, D′ and D″ are different batches. Clients count alike, as in the paper's Algorithm 1.
    """

    name: ClassVar[str] = "perfedavg"
    personal_models: ClassVar[bool] = True
    personal_lr: float = option(0.01, "α, learning rate of the personal step", at_least=0)
    variant: str = option(
        "first-order",
        "leave the second derivative out, or estimate its product from two gradients",
        choices=("first-order", "hessian-free"),
    )
    delta: float = option(0.001, "δ, how far apart hessian-free takes its gradients", above=0)

    def local_update(self, client: Client, down: Payload) -> Payload:
        client.start(down["weights"])
        parameters: Weights = {**learned(client.model)}
        purposes = ["batches", "batches of the personal model"]
        if self.variant == "hessian-free":
            purposes.append("batches of the second derivative")
        for own, *others in zip(*(client.batches(p) for p in purposes), strict=True):
            inner = gradient(client, parameters, own)
            with client.aside():  # what follows is not at w: batch norm does not learn from it
                loss = loss_at(client, moved(parameters, inner, -self.personal_lr), others[0])
                if self.variant == "hessian-free":
                    loss = self.corrected(client, parameters, loss, others[1])
            client.step(loss)
        return client.upload()

    def corrected(self, client: Client, parameters: Weights, loss: Tensor, batch: Batch) -> Tensor:
        """Something of the loss's value, with the gradient (I − α ∇²f) ∇loss."""
        outer = by(parameters, loss)
        ahead = gradient(client, moved(parameters, outer, self.delta), batch)
        behind = gradient(client, moved(parameters, outer, -self.delta), batch)
        parts = [
            (p * (v - self.personal_lr * (a - b) / (2 * self.delta))).sum()
            for p, v, a, b in zip(parameters.values(), outer, ahead, behind, strict=True)
        ]
        total = torch.stack(parts).sum()
        return loss.detach() + total - total.detach()

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        return state.replace(weights=weighted_mean((1, u["weights"]) for u in uploads))

    def evaluate(self, client: Client, down: Payload) -> Payload:
        """Also the shared model after one step on a batch of the client's training data."""
        own = self.personal(client, down) if len(client.data.test_labels) else down["aca"]
        return super().evaluate(client, down.replace(personal=own))

    def personal(self, client: Client, readouts: Payload) -> Weights:
        """The shared model after that step."""
        model = client.start(readouts["aca"])
        parameters: Weights = {**learned(model)}
        batch = next(client.batches("personal step"), None)
        if batch is None:  # batch norm with batches of one: nothing can be learned
            return readouts["aca"]
        with client.task.precision(training=True):  # also where the step around it judges
            steps = gradient(client, parameters, batch)
        with torch.no_grad():
            for parameter, step in zip(parameters.values(), steps, strict=True):
                parameter.sub_(self.personal_lr * step)
        return copy_of(model)


def loss_at(client: Client, parameters: Weights, batch: Batch) -> Tensor:
    """The loss of a batch with these parameters in the place of the local model's."""
    here = everywhere(client.model, parameters)
    logits = torch.func.functional_call(client.model, here, (batch[0],), tie_weights=False)
    return client.task.loss(logits, batch[1])


def gradient(client: Client, parameters: Weights, batch: Batch) -> tuple[Tensor, ...]:
    return by(parameters, loss_at(client, parameters, batch))


def by(parameters: Weights, loss: Tensor) -> tuple[Tensor, ...]:
    """The loss's gradient, which is 0 by parameters that have no part in it."""
    return torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)


def moved(parameters: Weights, direction: Sequence[Tensor], factor: float) -> Weights:
    pairs = zip(parameters.items(), direction, strict=True)
    return {name: p + factor * d for (name, p), d in pairs}
