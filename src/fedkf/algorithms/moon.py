"""MOON (Li et al., 2021): features stay near the global model's and away from the old local ones.

The previous local model is the client's own and never leaves it; before its first turn it is w⁰.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.core.payload import Payload
from fedkf.core.task import copy_of
from fedkf.models.projection import Projected, make_head

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload
    from fedkf.core.task import Task


@dataclass(frozen=True)
class MOON(Algorithm):
    """F_k(w) + μ ℓ_con, with features z of the model, the global model and the previous one."""

    name: ClassVar[str] = "moon"
    means_by_server: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = ("weights", "head")
    uses_features: ClassVar[bool] = True
    mu: float = option(1.0, "weight of the contrastive loss", at_least=0)
    temperature: float = option(0.5, "τ of the contrastive loss", above=0)
    head: int = option(0, "outputs of a projection head over the features; 0: none", at_least=0)

    def start(self, server: Server) -> State:
        return self.first(server.task)

    def broadcast(self, server: Server, state: State) -> Payload:
        return super().broadcast(server, state).add("head", state["head"], "weights")

    def local_update(self, client: Client, down: Payload) -> Payload:
        task, old = client.task, client.state or self.first(client.task)
        see = partial(Projected, task, self.head, round=client.round)
        near = see(client.teacher(down["weights"]), down["head"])
        far = see(client.teacher(old["weights"], "previous"), old["head"])
        local = see(client.start(down["weights"]), down["head"])
        for x, y in client.batches():
            z, logits = local(x)
            with torch.no_grad():
                others = near(x)[0], far(x)[0]
            contrast = contrastive_loss(z, *others, self.temperature)
            client.step(task.loss(logits, y) + self.mu * contrast)
            local.step()
            client.log(contrast=contrast)
        upload = client.upload().add("head", copy_of(local.head), "weights")
        client.state = Payload(weights=upload["weights"], head=upload["head"])
        return upload

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        heads = server.mean((u.size, u["head"]) for u in uploads)
        return super().aggregate(server, state, uploads).replace(head=heads)

    def first(self, task: Task) -> Payload:
        """What everybody begins with."""
        head = task.initial("projection head", lambda: make_head(task, self.head))
        return Payload(weights=task.initial_weights, head=head)


def contrastive_loss(z: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """ℓ_con (Eq. 3): −log of exp(cos(z, near)/τ) / (exp(cos(z, near)/τ) + exp(cos(z, far)/τ))."""
    similar = torch.nn.functional.cosine_similarity
    alike = torch.stack([similar(z, other) for other in (near, far)], 1) / temperature
    return torch.nn.functional.cross_entropy(alike, alike.new_zeros(len(z), dtype=torch.long))
