"""AFL (Mohri et al., 2019): minimise the worst mixture of the clients' losses.

The mixture λ climbs where losses are high, the model descends on the mixture. Where only some
clients take part, their losses, scaled by K/m, and zeros for the others are an unbiased estimate of
all losses: λ climbs along it, and the model is the mean of the active clients weighted by λ.

The guarantee is for the mean of the iterates w¹ … wᵗ, so that is the model; training goes on from
the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option, starting_loss
from fedkf.core.arithmetic import combine
from fedkf.core.payload import Payload, Weights, weighted_mean

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload

LEAST = 2.0**-52
"""A smaller share of the mixture counts for nothing, and mirror ascent could not lead it back."""


@dataclass(frozen=True)
class AFL(Algorithm):
    """w ← Σ_S λ_k w_k / Σ_S λ_k, λ ← projection of λ + γ F onto the simplex."""

    name: ClassVar[str] = "afl"
    continues: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("local_loss",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "local_loss/value")
    mixture_lr: float = option(0.1, "γ, learning rate of the mixture", at_least=0)
    ascent: str = option(
        "projected",
        "how the mixture climbs: projected onto the simplex, or by mirror ascent",
        choices=("projected", "mirror"),
    )
    readout: str = option(
        "mean", "the model is the mean of all rounds', or the last", choices=("mean", "last")
    )

    def start(self, server: Server) -> State:
        sizes = torch.tensor(
            [server.sizes[k] for k in range(len(server.sizes))], dtype=torch.float64
        )
        return super().start(server).add("mixture", {"weights": sizes / sizes.sum()})

    def model(self, state: State) -> Weights:
        if self.readout == "last" or "iterates" not in state:
            return state["weights"]
        count = state.number("rounds", "count")
        return combine(lambda w, s: (s / count).to(w.dtype), state["weights"], state["iterates"])

    def local_update(self, client: Client, down: Payload) -> Payload:
        loss = starting_loss(client, down["weights"])
        return super().local_update(client, down).add("local_loss", {"value": loss})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mixture = state["mixture"]["weights"]
        shares = [float(mixture[u.client]) for u in uploads]
        if not sum(shares):  # λ has left them all: nobody is preferred
            shares = [1.0 for _ in uploads]
        losses = torch.zeros_like(mixture)
        for upload in uploads:
            losses[upload.client] = upload.number("local_loss", "value")
        step = self.mixture_lr * len(mixture) / len(uploads) * losses
        if self.ascent == "mirror":
            new = (mixture.clamp_min(LEAST).log() + step).softmax(0)
        else:
            new = onto_simplex(mixture + step)
        weights = weighted_mean(
            (share, u["weights"]) for share, u in zip(shares, uploads, strict=True)
        )
        return self.remember(state.replace(weights=weights, mixture={"weights": new}))

    def remember(self, state: State) -> State:
        """The sum of the iterates, in float64, with the newest one."""
        if self.readout == "last":
            return state
        total, count = combine(lambda w: w.double(), state["weights"]), 1
        if "iterates" in state:
            total = combine(lambda w, s: w + s, total, state["iterates"])
            count += int(state.number("rounds", "count"))
        return state.replace(iterates=total, rounds={"count": count})


def onto_simplex(point: Tensor) -> Tensor:
    """The nearest point with non-negative entries that add up to 1.

    >>> onto_simplex(torch.tensor([0.5, 1.5, -1.0]))
    tensor([0., 1., 0.])
    >>> onto_simplex(torch.tensor([1e30, 0.0]))
    tensor([1., 0.])
    """
    ordered = point.sort(descending=True).values
    excess = (ordered.cumsum(0) - 1) / torch.arange(1, len(point) + 1, dtype=point.dtype)
    above = (ordered > excess).nonzero()
    if not len(above):  # numbers so large that 1 is nothing beside them
        return onto_simplex(point - ordered[0])
    return (point - excess[above[-1]]).clamp_min(0)
