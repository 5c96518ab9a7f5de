"""Accounting: what noisy steps cost, and who can still afford them.

The arithmetic is that of Google's dp-accounting: Rényi divergences of the Poisson-sampled Gaussian
mechanism, which add up over steps. Samples differ by one that is there or counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.privacy import Mechanism
from fedkf.core.records import Spent

ORDERS = (*range(2, 40), *range(40, 80, 8), 80, 96, 128, 192, 256, 512)
"""Whole ones, whose divergences are finite sums; a coarse choice can only overstate ε."""
MOST_NOISE = 1e6
PRECISION = 2e-3
"""Of the noise, as a share of it; it is never too small for its ε."""

Turns = tuple[tuple[Mechanism, int], ...]
"""Mechanisms and how many turns each was used for."""


@lru_cache(maxsize=4096)
def epsilon(turns: Turns, delta: float) -> float:
    """ε after these turns."""
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(list(ORDERS))
    for mechanism, count in turns:
        if not count:
            continue
        step = dp_accounting.GaussianDpEvent(mechanism.noise)
        if mechanism.rate < 1:
            step = dp_accounting.PoissonSampledDpEvent(mechanism.rate, step)
        accountant.compose(step, count * mechanism.steps)
    return float(accountant.get_epsilon(delta)) if any(n for _, n in turns) else 0.0


def calibrated(target: float, delta: float, like: Mechanism, turns: int) -> Mechanism:
    """The mechanism with the least noise that keeps so many turns within the target ε."""

    def with_noise(noise: float) -> Mechanism:
        return Mechanism(noise, like.rate, like.steps)

    def fits(noise: float) -> bool:
        return epsilon(((with_noise(noise), turns),), delta) <= target

    high = 0.5
    while not fits(high):
        high *= 2
        if high > MOST_NOISE:
            raise UserError(
                f"privacy.epsilon is {target:g}, which no noise keeps over {turns} rounds of "
                f"{like.steps} steps with privacy.delta {delta:g}"
            )
    low = high / 2
    while high / low > 1 + PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return with_noise(high)


class Accounts:
    """What each client has spent; the mechanisms are by client, the budget is everyone's."""

    def __init__(
        self, mechanisms: Mapping[int, Mechanism], delta: float, budget: float | None
    ) -> None:
        self.mechanisms, self.delta, self.budget = mechanisms, delta, budget
        self.turns: dict[int, int] = {}

    def epsilon(self, client: int, more: int = 0) -> float:
        """What a client has spent, or will have spent after more turns."""
        turns = self.turns.get(client, 0) + more
        return epsilon(((self.mechanisms[client], turns),), self.delta)

    def allows(self, client: int) -> bool:
        return self.budget is None or self.epsilon(client, 1) <= self.budget

    def charge(self, clients: Sequence[int]) -> None:
        for client in clients:
            self.turns[client] = self.turns.get(client, 0) + 1

    def spent(self, clients: Sequence[int]) -> Spent:
        return Spent(list(clients), [round(self.epsilon(k), 6) for k in clients])

    def state(self) -> Payload:
        return Payload(turns={str(client): turns for client, turns in sorted(self.turns.items())})

    def restore(self, saved: Payload) -> None:
        self.turns = {int(client): int(n) for client, n in saved.numbers["turns"].items()}
