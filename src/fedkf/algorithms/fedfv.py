"""FedFV (Wang et al., 2021): updates that are at odds are turned until they no longer are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option, starting_loss, with_shared
from fedkf.core.payload import weighted_mean

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload, Weights
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedFV(Algorithm):
    """w ← w − ‖ḡ‖ g/‖g‖ with ḡ = Σ p_k g_k, g_k = w − w_k, and g their mean after projections.

    Two updates are at odds where ⟨g_i, g_j⟩ < 0; the first then loses its part along the second.
    """

    name: ClassVar[str] = "fedfv"
    continues: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("local_loss",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "local_loss/value")
    alpha: float = option(
        0.1,
        "α, share of the active clients, of highest loss, left alone; above 0 one at least",
        at_least=0,
        at_most=1,
    )
    tau: int = option(1, "τ, for how many rounds an absent client is heeded", at_least=0)

    def start(self, server: Server) -> State:
        return super().start(server).add("updates", {}).add("rounds", {})

    def local_update(self, client: Client, down: Payload) -> Payload:
        loss = starting_loss(client, down["weights"])
        return super().local_update(client, down).add("local_loss", {"value": loss})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, learned = state["weights"], server.task.distinct
        updates = {u.client: flat(start, learned) - flat(u["weights"], learned) for u in uploads}
        losses = {u.client: u.number("local_loss", "value") for u in uploads}
        sizes = {u.client: u.size for u in uploads}
        mean, turned = (average(sizes, g) for g in (updates, self.internal(updates, losses)))
        last = {int(k): int(t) for k, t in state.numbers["rounds"].items()}
        absent = {k: (t, state["updates"][str(k)]) for k, t in last.items() if k not in updates}
        # The first τ rounds have not as much to look back on, and go without.
        for age in range(self.tau, 0, -1) if server.round > self.tau else ():
            turned = external(turned, [g for t, g in absent.values() if t == server.round - age])
        if turned.norm() > 0:
            turned = turned * (mean.norm() / turned.norm())
        fresh = {k: (server.round, g) for k, g in updates.items()}
        kept = {k: v for k, v in (absent | fresh).items() if v[0] > server.round - self.tau}
        return state.replace(
            weights=with_shared(server, shifted(uploads, mean - turned, learned)),
            updates={str(k): g for k, (_, g) in kept.items()},
            rounds={str(k): t for k, (t, _) in kept.items()},
        )

    def internal(
        self, updates: dict[int, Tensor], losses: dict[int, int | float]
    ) -> dict[int, Tensor]:
        """Each update without its parts against others, met in the order of rising losses."""
        order = sorted(losses, key=lambda k: (losses[k], k))
        alone = order[len(order) - self.left_alone(len(order)) :]
        turned = dict(updates)
        for k in order:
            for other in order if k not in alone else ():
                if other != k:
                    turned[k] = without_conflict(turned[k], updates[other])
        return turned

    def left_alone(self, active: int) -> int:
        """How many of the active keep their updates: one at least, unless α is 0.

        >>> [FedFV(alpha=0.1).left_alone(active) for active in (2, 5, 10, 11, 21)]
        [1, 1, 1, 2, 3]
        """
        return 1 + math.floor(self.alpha * (active - 1) + 1e-9) if self.alpha else 0


def external(update: Tensor, past: Sequence[Tensor]) -> Tensor:
    """The update without its part against the sum of those past ones that it is at odds with."""
    against = [g for g in past if update @ g < 0]
    return without_conflict(update, torch.stack(against).sum(0)) if against else update


def without_conflict(update: Tensor, other: Tensor) -> Tensor:
    """The update's projection onto the plane across the other where they are at odds.

    >>> without_conflict(torch.tensor([1.0, 1.0]), torch.tensor([-2.0, 0.0]))
    tensor([0., 1.])
    """
    along = update @ other
    return update - along / (other @ other) * other if along < 0 else update


def average(sizes: dict[int, int], updates: dict[int, Tensor]) -> Tensor:
    return weighted_mean((sizes[k], {"update": g}) for k, g in updates.items())["update"]


def flat(weights: Weights, names: Sequence[str]) -> Tensor:
    return torch.cat([weights[name].double().flatten() for name in names])


def shifted(uploads: Sequence[Upload], shift: Tensor, names: Sequence[str]) -> Weights:
    """FedAvg's mean with the parameters moved by `shift`."""
    weights = weighted_mean((u.size, u["weights"]) for u in uploads)
    for name, part in zip(names, shift.split([weights[n].numel() for n in names]), strict=True):
        old = weights[name]
        weights[name] = (old.double() + part.view_as(old)).to(old.dtype)
    return weights
