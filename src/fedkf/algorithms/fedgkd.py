"""FedGKD (Yao et al., 2021): past global models teach the local ones on their own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, LocalLoss, State, option
from fedkf.core.evaluation import mean_loss
from fedkf.core.payload import Payload, Weights, weighted_mean

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedGKD(Algorithm):
    """F_k(w) + γ/2 KL(teacher ‖ w), the teacher being the mean of the last M global models.

    FedGKD-VOTE has all M of them teach, each with its share of γ: Σ γ_m/2 KL(w_m ‖ w).
    """

    name: ClassVar[str] = "fedgkd"
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "text": dict(wait=False),
        "released": dict(wait=True),
    }
    tiny: ClassVar[Mapping[str, Any]] = dict(buffer=2, wait=False)
    means_by_server: ClassVar[bool] = True

    gamma: float = option(0.2, "γ, weight of the distillation, which counts half", at_least=0)
    buffer: int = option(5, "M, how many of the last global models teach", at_least=1)
    teacher: str = option("mean", "one teacher, their mean; or all vote", choices=("mean", "vote"))
    wait: bool = option(False, "no distillation until the clients' own models fill the buffer")
    vote_temperature: float = option(1.0, "β, how alike the votes count", above=0)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        models = past_models(state)
        if self._plain(server.round) or len(models) == 1:
            return down  # the model that goes down is itself the only teacher
        if self.teacher == "mean":
            mean = weighted_mean((1, w) for w in models)
            return down.add("teacher", mean, "weights", base="weights")
        for age, weights in enumerate(models[1:], 1):
            down.add(f"teacher-{age}", weights, "weights", base="weights")
        return down

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = Payload(weights=super().aggregate(server, state, uploads)["weights"])
        for age, weights in enumerate(past_models(state)[: self.buffer - 1], 1):
            new.add(f"past-{age}", weights)
        return new

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        if self._plain(client.round):
            return super().local_loss(client, down)
        sent = [down[group] for group in down if group.startswith("teacher")]
        weights = sent if self.teacher == "mean" and sent else [down["weights"], *sent]
        roles = ["teacher", *(f"teacher {k}" for k in range(1, len(weights)))]
        teachers = [client.teacher(w, role) for w, role in zip(weights, roles, strict=True)]
        votes = self.votes(client, teachers) if self.teacher == "vote" else [1.0]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = client.model(x)
            parts = [
                vote * client.task.objective.distil(teacher(x), logits)
                for vote, teacher in zip(votes, teachers, strict=True)
            ]
            kl = torch.stack(parts).sum()
            client.log(kl=kl)
            return client.task.loss(logits, y) + self.gamma / 2 * kl

        return loss

    def votes(self, client: Client, teachers: Sequence[nn.Module]) -> list[float]:
        """γ_m / γ = softmax(−F(w_m) / β), with F the loss on the client's own data."""
        task, data = client.task, client.data
        losses = [mean_loss(task, teacher, data.images, data.labels) for teacher in teachers]
        shares = (-torch.tensor(losses, dtype=torch.float64) / self.vote_temperature).softmax(0)
        return [float(share) for share in shares]

    def _plain(self, round: int) -> bool:
        """Round t has w¹ … wᵗ⁻¹ to learn from: w⁰, which nobody trained, does not fill a buffer."""
        return self.wait and round <= self.buffer


def past_models(state: State) -> list[Weights]:
    """The global models that the server keeps, the newest first."""
    return [state["weights"], *(state[f"past-{age}"] for age in range(1, len(list(state))))]
