"""FedSAM (Qu et al., 2022): clients step down the gradient found where their loss is sharpest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.algorithms.perfedavg import gradient, loss_at
from fedkf.core.algorithm import Algorithm, option
from fedkf.core.task import learned

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload, Weights


@dataclass(frozen=True)
class FedSAM(Algorithm):
    """w_k ← w_k − η ∇F_k(w_k + ρ g/‖g‖) with g = ∇F_k(w_k), both on the same batch."""

    name: ClassVar[str] = "fedsam"
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    rho: float = option(0.05, "ρ, how far off gradients are taken; 0 gives FedAvg", at_least=0)

    def local_update(self, client: Client, down: Payload) -> Payload:
        client.start(down["weights"])
        here: Weights = {**learned(client.model)}
        for batch in client.batches():
            with client.aside():  # batch norm and dropout see one pass a step, as in FedAvg
                ascent = gradient(client, here, batch)
            norm = torch.stack([g.square().sum() for g in ascent]).sum().sqrt()
            reach = self.rho / norm.clamp_min(1e-12)
            pairs = zip(here.items(), ascent, strict=True)
            client.step(loss_at(client, {name: p + reach * g for (name, p), g in pairs}, batch))
        return client.upload()
