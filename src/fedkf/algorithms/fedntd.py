"""FedNTD (Lee et al., 2022): the global model teaches what it knows of the classes that are not so.

Forgetting shows in the classes that a client lacks. The model that came down is asked about the
client's own samples, and its view of all classes but the true one is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, LocalLoss, option
from fedkf.distillation.losses import kl_loss

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload


@dataclass(frozen=True)
class FedNTD(Algorithm):
    """F_k(w) + β KL(q̃(wᵗ) ‖ q̃(w)), q̃ being the softmax over the classes that are not true."""

    name: ClassVar[str] = "fedntd"
    sums_only: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    continues: ClassVar[bool] = True
    beta: float = option(1.0, "β, weight of the distillation; 0 gives FedAvg", at_least=0)
    tau: float = option(1.0, "τ, temperature of both softmaxes", above=0)

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        teacher = client.teacher(down["weights"])

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = client.model(x)
            kept = not_true_loss(logits, teacher(x), y, self.tau)
            client.log(kl=kept)
            return client.task.loss(logits, y) + self.beta * kept

        return loss


def not_true_loss(logits: Tensor, taught: Tensor, labels: Tensor, tau: float) -> Tensor:
    """L_NTD: KL between the softmaxes at temperature τ, the true class left out of both."""
    return kl_loss((without(taught, labels) / tau).softmax(1), without(logits, labels) / tau)


def without(logits: Tensor, labels: Tensor) -> Tensor:
    """The logits of every class but the sample's own.

    >>> without(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1]))
    tensor([[1., 3.]])
    """
    classes = logits.shape[1]
    others = torch.arange(classes, device=labels.device) != labels[:, None]
    return logits[others].view(-1, classes - 1)
