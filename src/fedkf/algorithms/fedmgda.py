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
        start, learned = state["weights"], server.task.distinct
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
        new = with_mean_buffers(server, uploads, new)
        return state.replace(weights=new)


def min_norm_weights(
    products: NDArray[np.float64], centre: NDArray[np.float64], epsilon: float
) -> NDArray[np.float64]:
    """The λ that minimises λᵀGλ with Σλ = 1, λ ≥ 0 and |λ − centre| ≤ ε; G are inner products.

    Weight moves to the client whose update shortens the sum most from the one that lengthens it
    most, then all weights that are at no bound go to their common optimum, as far as bounds allow;
    until no exchange would shorten the sum: then the conditions of optimality hold.
    """
    low, high = np.maximum(centre - epsilon, 0.0), np.minimum(centre + epsilon, 1.0)
    weights = centre.copy()
    enough = 1e-12 * float(np.abs(products).max(initial=0.0))
    for _ in range(1000):
        slope = products @ weights
        grows = int(np.argmin(np.where(weights < high, slope, np.inf)))
        shrinks = int(np.argmax(np.where(weights > low, slope, -np.inf)))
        if not (weights[grows] < high[grows] and slope[shrinks] - slope[grows] > enough):
            break
        pair = np.zeros_like(weights)
        pair[grows], pair[shrinks] = 1.0, -1.0
        curve = float(pair @ products @ pair)
        length = (slope[shrinks] - slope[grows]) / curve if curve > 0 else np.inf
        weights = advance(weights, pair, low, high, length)
        free = np.flatnonzero((weights > low) & (weights < high))
        if len(free) > 1:
            system = np.ones((len(free) + 1, len(free) + 1))
            system[:-1, :-1], system[-1, -1] = products[np.ix_(free, free)], 0.0
            right = np.append(-(products @ weights)[free], 0.0)
            step = np.zeros_like(weights)
            step[free] = np.linalg.lstsq(system, right, rcond=None)[0][:-1]
            if step @ (products @ weights) < 0:
                weights = advance(weights, step, low, high, 1.0)
    return weights


def advance(
    weights: NDArray[np.float64],
    step: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    most: float,
) -> NDArray[np.float64]:
    """Along `step` up to `most` times, or exactly onto the first bound in the way."""
    bound = np.where(step > 0, high, low)
    room = np.full_like(weights, np.inf)
    np.divide(bound - weights, step, out=room, where=step != 0)
    moved = weights + min(most, float(room.min())) * step
    return np.where(room <= most * (1 + 1e-12), np.where(room == room.min(), bound, moved), moved)
