"""FedLC (Zhang et al., 2022): logits are shifted by how seldom the client sees their class.

The counts are the client's own and stay with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, LocalLoss, option

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload


@dataclass(frozen=True)
class FedLC(Algorithm):
    """CE of f_c(x) − τ n_c^(−1/4), with n_c the client's samples of class c."""

    name: ClassVar[str] = "fedlc"
    sums_only: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    continues: ClassVar[bool] = True
    tau: float = option(1.0, "τ, how far logits are shifted; 0 gives FedAvg", at_least=0)
    absent: float = option(
        1e-8,
        "n_c of a class that the client has not; the formula has 0 and shifts endlessly",
        above=0,
    )

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        counts = client.data.labels.bincount(minlength=client.task.classes).double()
        counts[counts == 0] = self.absent
        shift = self.tau * counts**-0.25
        return lambda x, y: client.task.loss((z := client.model(x)) - shift.to(z.dtype), y)
