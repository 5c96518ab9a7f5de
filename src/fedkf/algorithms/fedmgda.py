"""FedMGDA+ (Hu et al., 2022): step in the direction that helps every client, or harms the least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedMGDA(Algorithm):
    """w ← w − η Σ λ_k g_k, g_k = (w − w_k)/‖w − w_k‖, with λ minimising ‖Σ λ_k g_k‖².

    λ lies on the simplex, within ε of FedAvg's weights n_k/n.
    """

    name: ClassVar[str] = "fedmgda"
    fairness_aware: ClassVar[bool] = True
    epsilon: float = option(
        0.1, "how far a weight may be from FedAvg's; 1 leaves it free", at_least=0, at_most=1
    )
    server_lr: float = option(1.0, "learning rate of the server", above=0)
    normalise: bool = option(True, "updates count by their direction only")

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, learned = state["weights"], server.task.parameters
        flat = torch.cat([start[name].double().flatten() for name in learned])
        updates = torch.stack(
            [
                flat - torch.cat([u["weights"][name].double().flatten() for name in learned])
                for u in uploads
            ]
        )
        if self.normalise:
            updates = torch.nn.functional.normalize(updates, dim=1)
        sizes = np.array([u.size for u in uploads], dtype=np.float64)
        mixture = min_norm_weights((updates @ updates.T).numpy(), sizes / sizes.sum(), self.epsilon)
        direction = self.server_lr * (torch.from_numpy(mixture) @ updates)
        parts = direction.split([start[name].numel() for name in learned])
        new = dict(start)
        for name, part in zip(learned, parts, strict=True):
            moved = start[name].double() - part.view(start[name].shape)
            new[name] = moved.to(start[name].dtype)
        return state.replace(weights=with_mean_buffers(server, uploads, new))


def min_norm_weights(
    products: NDArray[np.float64], centre: NDArray[np.float64], epsilon: float
) -> NDArray[np.float64]:
    """The λ that minimises λᵀGλ with Σλ = 1, λ ≥ 0 and |λ − centre| ≤ ε; G are inner products.

    Weight moves between two clients at a time, each time as much as lowers the norm most, until no
    pair is left whose exchange would lower it: then the conditions of optimality hold.
    """
    low, high = np.maximum(centre - epsilon, 0.0), np.minimum(centre + epsilon, 1.0)
    weights = centre.copy()
    slope = products @ weights
    enough = 1e-12 * max(float(np.abs(products).max()), np.finfo(np.float64).tiny)
    for _ in range(1000 * len(weights)):
        grows = int(np.argmin(np.where(weights < high, slope, np.inf)))
        gap = np.where(weights > low, slope - slope[grows], -np.inf)
        if gap.max() <= enough:
            break
        curve = products.diagonal() + products[grows, grows] - 2 * products[grows]
        curve = np.maximum(curve, np.finfo(np.float64).tiny)
        shrinks = int(np.argmax(np.where(gap > 0, gap / curve * gap, -np.inf)))
        room = min(high[grows] - weights[grows], weights[shrinks] - low[shrinks])
        amount = gap[shrinks] / curve[shrinks]
        if amount >= room:  # exactly onto the bound, so that it is seen as reached
            amount = room
            full = high[grows] - weights[grows] <= weights[shrinks] - low[shrinks]
            weights[grows], weights[shrinks] = (
                (high[grows], weights[shrinks] - amount)
                if full
                else (weights[grows] + amount, low[shrinks])
            )
        else:
            weights[grows] += amount
            weights[shrinks] -= amount
        slope += amount * (products[grows] - products[shrinks])
    return weights
