"""SCAFFOLD (Karimireddy et al., 2020), option II: control variates correct the clients' drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.algorithms.fednova import effective_steps
from fedkf.core.algorithm import Algorithm, LocalLoss, State, option, part_way
from fedkf.core.arithmetic import combine, subtract, zeros_like
from fedkf.core.payload import Payload, weighted_mean

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Local steps go down g − c_k + c; clients count alike, as in the paper's Algorithm 1."""

    name: ClassVar[str] = "scaffold"
    assumes_sgd: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = ("weights", "control")
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def start(self, server: Server) -> State:
        weights = server.task.initial_weights
        return Payload(weights=weights, control=zeros_like(weights))

    def broadcast(self, server: Server, state: State) -> Payload:
        return super().broadcast(server, state).add("control", state["control"], "weights")

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain = super().local_loss(client, down)
        # ⟨c − c_k, w⟩ has the gradient c − c_k, whatever the batch.
        correction = subtract(down["control"], own_control(client, down))
        parameters = client.model.named_parameters()
        pairs = [(p, correction[name].to(p.device)) for name, p in parameters]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            return plain(x, y) + sum((p * c).sum() for p, c in pairs)

        return loss

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        training, old = client.task.training, own_control(client, down)
        # Under momentum a step moves the model further than η times its gradient.
        rate = training.lr * effective_steps(client.steps, training.momentum)
        moved = subtract(down["weights"], upload["weights"])
        new = combine(lambda k, c, d: k - c + d / rate, old, down["control"], moved)
        client.state = Payload(control=new)
        return upload.add("control", subtract(new, old), "weights")

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mean = weighted_mean((1, u["weights"]) for u in uploads)
        change = weighted_mean((1, u["control"]) for u in uploads)
        share = len(uploads) / len(server.sizes)
        return state.replace(
            weights=part_way(server, state["weights"], mean, self.server_lr),
            control=combine(lambda c, d: c + share * d, state["control"], change),
        )


def own_control(client: Client, down: Payload) -> dict[str, Tensor]:
    """c_k as the client left it, zero at first."""
    return client.state["control"] if client.state else zeros_like(down["control"])
