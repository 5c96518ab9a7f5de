"""Fairness beyond one variance: deciles, the worst tenth, mixtures, and who is served worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkf.report.runs import Run
from fedkf.runs.mixtures import mixtures

DECILES = tuple(range(0, 101, 10))
DRAWS = 1000


@dataclass(frozen=True)
class Served:
    """What one site gets from a model."""

    client: int
    name: str
    accuracy: float
    tested: int | None

    @property
    def right(self) -> int | None:
        return None if self.tested is None else round(self.accuracy * self.tested)

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.right, self.tested) if self.right is not None and self.tested else None


def served(run: Run, readout: str) -> list[Served]:
    """Every site with test data, the worst served first."""
    score = run.score(readout)
    if score is None:
        return []
    pairs = zip(score.clients, score.accuracy, strict=True)
    sites = [Served(k, run.site(k), a, run.tested(k)) for k, a in pairs if a is not None]
    return sorted(sites, key=lambda site: (site.accuracy, site.client))


def wilson(right: int, tested: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share that was counted (Wilson's, sound for few cases too).

    >>> [round(x, 3) for x in wilson(5, 10)]
    [0.237, 0.763]
    """
    p, n = right / tested, tested
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def deciles(accuracies: list[float]) -> list[float]:
    """The accuracy that so many percent of the sites stay below, from the worst to the best."""
    return [float(q) for q in np.quantile(accuracies, [d / 100 for d in DECILES])]


def worst_tenth(accuracies: list[float]) -> float:
    """The mean accuracy of the tenth of sites that is served worst, of one at least.

    >>> worst_tenth([0.9, 0.5, 0.7])
    0.5
    """
    count = math.ceil(len(accuracies) / 10)
    return math.fsum(sorted(accuracies)[:count]) / count


def beyond(run: Run, readout: str) -> dict[str, Any] | None:
    """The numbers of one readout, or None where no site has test data."""
    sites = served(run, readout)
    if not sites:
        return None
    accuracies = [site.accuracy for site in sites]
    result: dict[str, Any] = {
        "deciles": deciles(accuracies),
        "worst_tenth": worst_tenth(accuracies),
        "spread": max(accuracies) - min(accuracies),
        "mixtures": None,
    }
    sizes = [site.tested or 0 for site in sites]
    if all(sizes):
        result["mixtures"] = mixtures(accuracies, sizes, DRAWS, np.random.default_rng(0))
    return result
