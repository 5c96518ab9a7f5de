"""Accounting: what noisy steps cost, and who can still afford them.

The arithmetic is that of Google's dp-accounting: Rényi divergences of the Poisson-sampled Gaussian
mechanism, which add up over steps. Samples differ by one that is there or counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload
from fedkf.core.privacy import Mechanism
from fedkf.core.records import Spent
from fedkf.runs.data_keys import LEAST_NOISE, MOST_NOISE

ORDERS = (*range(2, 40), *range(40, 80, 8), 80, 96, 128, 192, 256, 512)
"""Whole ones, whose divergences are finite sums; a coarse choice can only overstate ε."""
MOST_STEPS = 10**7
"""Of one mechanism; beyond them rounding adds up."""
PRECISION = 2e-3
"""Of the noise, as a share of it; it is never too small for its ε."""

Turns = tuple[tuple[Mechanism, int], ...]
"""Mechanisms and how many turns each was used for."""


@lru_cache(maxsize=4096)
def epsilon(turns: Turns, delta: float) -> float:
    """ε after these turns; infinite where the arithmetic cannot be relied on."""
    from dp_accounting import rdp

    used = [(mechanism, n * mechanism.steps) for mechanism, n in turns if n * mechanism.steps]
    if not used:
        return 0.0
    total = [0.0] * len(ORDERS)
    for mechanism, steps in used:
        if not LEAST_NOISE <= mechanism.noise <= MOST_NOISE or not 0 < steps <= MOST_STEPS:
            return math.inf
        found = divergences(mechanism, steps)
        if any(math.isnan(value) for value in found):
            return math.inf
        # None is negative but by rounding, and may not pay for what others have told.
        total = [so_far + max(0.0, value) for so_far, value in zip(total, found, strict=True)]
    spent = float(rdp.compute_epsilon(list(ORDERS), total, delta)[0])
    return math.inf if math.isnan(spent) else spent


def divergences(mechanism: Mechanism, steps: int) -> list[float]:
    """Rényi divergences of so many steps, one of each order."""
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(list(ORDERS))
    step = dp_accounting.GaussianDpEvent(mechanism.noise)
    if mechanism.rate < 1:
        step = dp_accounting.PoissonSampledDpEvent(mechanism.rate, step)
    accountant.compose(step, steps)
    return [float(value) for value in accountant.rdp]


def calibrated(target: float, delta: float, like: Mechanism, turns: int) -> Mechanism:
    """The mechanism with the least noise that keeps so many turns within the target ε."""

    def with_noise(noise: float) -> Mechanism:
        return Mechanism(noise, like.rate, like.steps)

    def fits(noise: float) -> bool:
        return epsilon(((with_noise(noise), turns),), delta) <= target

    high = 0.5
    while high / 2 >= LEAST_NOISE and fits(high / 2):
        high /= 2
    while not fits(high):
        high *= 2
        if high > MOST_NOISE:
            raise UserError(
                f"privacy.epsilon is {target:g}, which no noise keeps over {turns} rounds of "
                f"{like.steps} steps with privacy.delta {delta:g}"
            )
    low = max(high / 2, LEAST_NOISE)
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

    def restore(self, saved: Payload | None) -> None:
        if saved is None:
            raise FedkfError("the checkpoint does not say what clients have spent of their privacy")
        self.turns = {int(client): int(n) for client, n in saved.numbers["turns"].items()}
