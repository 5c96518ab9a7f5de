"""FedSWA (Liu et al., 2025): local rates fall in a round, the server averages over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import towards
from fedkf.core.payload import weighted_mean

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedSWA(Algorithm):
    """Step i of n has the rate η (1 − i/n) + ρ η i/n; then w ← w + α (Σ p_k w_k − w)."""

    name: ClassVar[str] = "fedswa"
    assumes_sgd: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    rho: float = option(
        0.1, "ρ, where the local rate falls to, as a share of η", at_least=0, at_most=1
    )
    alpha: float = option(1.5, "α, how far the server moves to the clients' mean", above=0)

    def local_update(self, client: Client, down: Payload) -> Payload:
        client.start(down["weights"])
        loss = self.local_loss(client, down)
        (group,), first = client.optimizer.param_groups, client.task.training.lr
        steps = sum(1 for _ in client.batches("number of steps"))
        for x, y in client.batches():
            group["lr"] = first * (1 - (1 - self.rho) * client.steps / steps)
            client.step(loss(x, y))
        return client.upload()

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mean = weighted_mean((u.size, u["weights"]) for u in uploads)
        new = towards(state["weights"], mean, self.alpha)
        return state.replace(weights=with_mean_buffers(server, uploads, new))
