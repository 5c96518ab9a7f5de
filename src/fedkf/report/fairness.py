"""Fairness beyond one number: who is served worst, deciles, mixtures, gain over training alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkf.metrics.intervals import wilson
from fedkf.report.runs import Run
from fedkf.runs.mixtures import mixtures

DECILES = tuple(range(0, 101, 10))
DRAWS = 1000


@dataclass(frozen=True)
class SiteScore:
    """What one site gets from a model."""

    client: int
    name: str
    accuracy: float
    tested: int | None

    @property
    def right(self) -> int | None:
        """How many of the tested cases were right."""
        return None if self.tested is None else round(self.accuracy * self.tested)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where its accuracy plausibly lies, given how few cases were tested."""
        return wilson(self.right, self.tested) if self.right is not None and self.tested else None


def site_scores(run: Run, readout: str) -> list[SiteScore]:
    """Every site with test data, the worst served first."""
    score = run.score(readout)
    if score is None:
        return []
    pairs = zip(score.clients, score.accuracy, strict=True)
    sites = [SiteScore(k, run.site(k), a, run.tested(k)) for k, a in pairs if a is not None]
    return sorted(sites, key=lambda site: (site.accuracy, site.client))


def deciles(accuracies: list[float]) -> list[float]:
    """The accuracy that so many percent of the sites stay below, from the worst to the best."""
    return [float(q) for q in np.quantile(accuracies, [d / 100 for d in DECILES])]


def gains(run: Run, runs: Sequence[Run]) -> dict[str, float]:
    """By how much each site is better off with the run's model than alone, the worst served first.

    Empty where no run among `runs` trained alone with the same data and seed, and for that run
    itself.
    """
    if run.alone or not run.readouts or run.pairing is None:
        return {}
    alone = next((r for r in runs if r.alone and r.readouts and r.pairing == run.pairing), None)
    if alone is None:
        return {}
    own = {site.name: site.accuracy for site in site_scores(alone, alone.readouts[0])}
    return {
        site.name: site.accuracy - own[site.name]
        for site in site_scores(run, run.readouts[0])
        if site.name in own
    }


def fairness(run: Run, readout: str) -> dict[str, Any] | None:
    """The numbers of one readout, or None where no site has test data."""
    sites = site_scores(run, readout)
    if not sites:
        return None
    accuracies = [site.accuracy for site in sites]
    result: dict[str, Any] = {
        "deciles": deciles(accuracies),
        "spread": max(accuracies) - min(accuracies),
        "mixtures": None,
    }
    sizes = [site.tested or 0 for site in sites]
    if all(sizes):
        result["mixtures"] = mixtures(accuracies, sizes, DRAWS, np.random.default_rng(0))
    return result
