"""What a difference between two settings is worth: paired by seed, with an interval, in words.

Two runs are a pair if they had the same data, the same division of it and the same seed. Over three
pairs or more the interval is Student's t; over a single one it is a bootstrap over the clients.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedkf.core.scores import Score
from fedkf.metrics import Accuracies, Metric
from fedkf.metrics.sites import over

CONFIDENCE = 0.95
FEWEST_SEEDS = 3
FEWEST_CLIENTS = 5
"""Resampling fewer clients than this says next to nothing about others like them."""
DRAWS = 1000
FEWEST_DRAWS = 200
WORK = 40_000
"""Clients times draws; with many clients fewer draws do."""
EQUAL = 1e-12
CHANCE = "no difference beyond chance"
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Difference:
    """By how much a metric is larger than under the baseline, and where that plausibly lies."""

    mean: float
    seeds: int
    interval: tuple[float, float] | None = None
    clients: int = 0
    """How many clients the interval is over; 0 where it is over seeds."""

    def reversed(self) -> Difference:
        """By how much it is smaller."""
        turned = (-self.interval[1], -self.interval[0]) if self.interval else None
        return replace(self, mean=-self.mean, interval=turned)

    @property
    def beyond_chance(self) -> bool:
        """Whether there is an interval and it leaves out 0."""
        return self.interval is not None and not (
            self.interval[0] <= EQUAL and self.interval[1] >= -EQUAL
        )


def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors an interval of Student's t reaches to each side.

    >>> round(student_quantile(2), 3), round(student_quantile(30), 3)
    (4.303, 2.042)
    """
    low, high = 0.0, 1.0
    while student_probability(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if student_probability(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_probability(t: float, degrees: int) -> float:
    """P(|T| ≤ t) for a whole number of degrees of freedom, as a finite sum of cosines."""
    angle = math.atan(t / math.sqrt(degrees))
    square = math.cos(angle) ** 2
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, degrees, 2):  # the powers of the cosine below `degrees` - 1
        total += term
        term *= square * k / (k + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def paired(base: Mapping[Key, Value], other: Mapping[Key, Value]) -> list[tuple[Value, Value]]:
    """What both have under the same data and seed, in the order of `other`."""
    return [(base[key], value) for key, value in other.items() if key in base]


def over_seeds(differences: Sequence[float]) -> Difference:
    """The mean of the pairs' differences; with an interval from three pairs on."""
    mean, count = statistics.fmean(differences), len(differences)
    if count < FEWEST_SEEDS:
        return Difference(mean, count)
    error = statistics.stdev(differences) / math.sqrt(count)
    reach = student_quantile(count - 1) * error
    return Difference(mean, count, (mean - reach, mean + reach))


def over_clients(
    metric: Metric, base: Accuracies, other: Accuracies, sizes: Sequence[float], seed: int = 0
) -> tuple[float, float] | None:
    """The bootstrap interval of a difference within one pair of runs; None for few clients.

    Clients are drawn with replacement, the same ones in both runs. It tells how much hangs on which
    clients there were, not on the seed. A draw never holds a worse client than the worst, so for
    WLP the interval is rather too narrow. A metric of the worst clients says itself whether those
    are the lowest or, as for errors, the highest.
    """
    known = [
        (a, b, n) for a, b, n in zip(base, other, sizes, strict=True) if None not in (a, b) and n
    ]
    count = len(known)
    if count < FEWEST_CLIENTS:
        return None
    random = np.random.default_rng(seed)
    draws = min(DRAWS, max(FEWEST_DRAWS, WORK // count))
    found = []
    for places in random.integers(count, size=(draws, count)):
        one, two, weights = zip(*(known[k] for k in places), strict=True)
        before, after = (metric.compute(a, weights, metric.higher_is_better) for a in (one, two))
        if before is None or after is None:
            return None
        found.append(after - before)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(found, [tail, 100 - tail])
    return float(low), float(high)


def within_pair(
    metric: Metric, base: Score, other: Score, tested: Callable[[int], int | None]
) -> Difference | None:
    """The difference between two runs, with an interval over the clients that both tested.

    `tested` says on how many cases a client was tested, or None where that is not known; a metric
    that weighs clients by it then has no interval. Runs that are judged by different metrics of
    the clients have no difference.
    """
    before, after = base[metric.name], other[metric.name]
    if before is None or after is None or base.metric != other.metric:
        return None
    metric = over(base.metric).get(metric.name, metric)
    there = dict(zip(base.clients, base.performance, strict=True))
    rows = [
        (there[k], accuracy, (tested(k) or 0) if metric.weighted else 1)
        for k, accuracy in zip(other.clients, other.performance, strict=True)
        if accuracy is not None and there.get(k) is not None
    ]
    sizes = [size for _, _, size in rows]
    interval = over_clients(metric, [row[0] for row in rows], [row[1] for row in rows], sizes)
    count = sum(1 for size in sizes if size)
    return Difference(after - before, 1, interval, count if interval else 0)


def amount(difference: Difference, metric: Metric) -> str:
    """ "+2.3 points [0.4, 4.2]", the interval where there is one."""
    sign = "+" if difference.mean >= 0 else ""
    text = f"{sign}{metric.show(difference.mean)}{' points' if metric.percent else ''}"
    if difference.interval is None:
        return text
    low, high = difference.interval
    return f"{text} [{metric.show(low)}, {metric.show(high)}]"


def ground(difference: Difference) -> str:
    """What the difference is over: "over 3 seeds", or why there is no interval."""
    if difference.clients:
        return f"one seed: interval over {difference.clients} clients"
    if difference.seeds == 1:
        return "one seed, no interval"
    few = "" if difference.interval else ", too few for an interval"
    return f"over {difference.seeds} seeds{few}"


def words(difference: Difference, metric: Metric) -> str:
    """The difference, what it is over, and whether it may be chance.

    >>> from fedkf.metrics import METRICS
    >>> words(over_seeds([0.02, 0.023, 0.026]), METRICS["amp"])
    '+2.3 points [1.6, 3.0] over 3 seeds'
    """
    over = ground(difference)
    text = f"{amount(difference, metric)}{' ' if over.startswith('over') else ', '}{over}"
    if difference.interval is None or difference.beyond_chance:
        return text
    return f"{text}, {CHANCE}"
