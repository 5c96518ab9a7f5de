"""Where a site's metric plausibly lies: a bootstrap over its test samples, from their statistics.

A share that is counted, such as accuracy or the sensitivity of a class, has Wilson's interval
instead, which also says something where all of a few samples are right.

Nobody but the site has its samples. Counts are drawn anew from a multinomial with the same shares,
which is what drawing samples with replacement does to them. Of sums the means are drawn from the
normal distribution with the covariance that the sums of products tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from fedkf.metrics.formulas import Numbers, Statistic
from fedkf.metrics.sites import SiteMetric

DRAWS = 500
CONFIDENCE = 0.95
EQUAL = 1e-12
FEWEST = 2
"""With fewer test samples there is nothing to draw from."""

Interval = tuple[float, float]


def interval(
    metric: SiteMetric, statistics: Mapping[str, Statistic], random: np.random.Generator
) -> list[Interval | None]:
    """The 95 % interval of a metric, or one for each class if it is one number for each.

    A mean over classes of which only each one's own scores are known has the mean of the classes'
    intervals, which is too wide rather than too narrow. None where most draws say nothing.
    """
    statistic = statistics.get(metric.statistic)
    if statistic is None:
        return [None]
    if metric.name in SHARES:
        right, tested = SHARES[metric.name](statistic)
        return [wilson(c, n) if n else None for c, n in zip(right, tested, strict=True)]
    if metric.each is not None:
        each = metric.each
        known = [one for one in statistic if one.sum(-1).all()]
        if not known or known[0].sum() < FEWEST:
            return [None]
        ends = np.array([bounds(each(resampled_scores(one, random))) for one in known])
        return [spanned(*ends.mean(0))]
    if sampled(metric.statistic, statistic) < FEWEST:
        return [None]
    drawn = metric.formula(RESAMPLED[metric.statistic](statistic, random))
    columns = drawn[:, None] if drawn.ndim == 1 else drawn
    return [spanned(*bounds(column)) for column in columns.T]


def wilson(right: float, tested: float, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share that was counted (Wilson's, sound for few cases too).

    >>> [round(x, 3) for x in wilson(5, 10)]
    [0.237, 0.763]
    """
    p, n = right / tested, tested
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def bounds(drawn: Numbers) -> tuple[float, float]:
    """The middle 95 % of what was drawn, NaN where most draws say nothing."""
    known = drawn[np.isfinite(drawn)]
    if len(known) * 2 < len(drawn):
        return np.nan, np.nan
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(known, [tail, 100 - tail])
    return float(low), float(high)


def spanned(low: float, high: float) -> Interval | None:
    """An interval; None for one without any width, as where all of a few samples are right.

    That says that drawing from these samples cannot tell, not that the value is certain.
    """
    known = np.isfinite([low, high]).all() and high - low > EQUAL
    return (float(low), float(high)) if known else None


def sampled(name: str, statistic: Statistic) -> float:
    """How many samples a statistic is of."""
    if name == "confusion":
        return float(statistic.sum())
    return float(statistic[..., 0].sum() if name == "calibration" else statistic[0, 0])


def redrawn(counts: Statistic, random: np.random.Generator) -> Numbers:
    """Many of the same number of samples in the same shares; the last axes are as they were."""
    flat = np.asarray(counts, dtype=np.float64).ravel()
    found = np.zeros((DRAWS, flat.size))
    there = np.flatnonzero(flat)
    total = flat.sum()
    found[:, there] = random.multinomial(int(total), flat[there] / total, size=DRAWS)
    return found.reshape(DRAWS, *np.shape(counts))


def resampled_scores(scores: Statistic, random: np.random.Generator) -> Numbers:
    """Of one class against the rest; bins that nothing is in are left out."""
    return redrawn(scores[:, scores.any(0)], random)


def resampled_calibration(cells: Statistic, random: np.random.Generator) -> Numbers:
    """Redrawn answers are each as sure as those of their cell on average."""
    count = redrawn(cells[..., 0], random)
    sure = cells[..., 1] / np.maximum(cells[..., 0], 1)
    return np.stack([count, count * sure], -1)


def resampled_sums(sums: Statistic, random: np.random.Generator, degree: int = 1) -> Numbers:
    """First rows of sums of products whose means were drawn anew.

    Sums over pairs move twice as much as sums over the samples that are in them: `degree` 2.
    """
    count = sums[0, 0]
    mean = sums[0, 1:] / count
    covariance = sums[1:, 1:] / count - np.outer(mean, mean)
    if not np.isfinite(covariance).all():
        return np.full((DRAWS, *sums.shape), np.nan)
    sizes, directions = np.linalg.eigh(covariance / (count - 1))
    reach = directions * np.sqrt(np.maximum(sizes, 0.0))
    moved = random.standard_normal((DRAWS, len(mean))) @ reach.T
    drawn = np.zeros((DRAWS, *sums.shape))
    drawn[:, 0, 0] = count
    drawn[:, 0, 1:] = count * (mean + degree * moved)
    return drawn


def resampled_pairs(sums: Statistic, random: np.random.Generator) -> Numbers:
    return resampled_sums(sums, random, degree=2)


SHARES: dict[str, Callable[[Statistic], tuple[list[int], list[int]]]] = {
    "accuracy": lambda counts: ([int(counts[1])], [int(counts[0])]),
    "sensitivity": lambda confusion: (
        np.diagonal(confusion).tolist(),
        confusion.sum(1).tolist(),
    ),
}
"""How many are right of how many, for metrics that are counted shares."""

RESAMPLED = {
    "confusion": redrawn,
    "calibration": resampled_calibration,
    "errors": resampled_sums,
    "pairs": resampled_pairs,
}
