"""Fairness beyond one number: who is served worst, deciles, mixtures, gain over training alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkf.metrics.intervals import wilson
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, SiteMetric
from fedkf.report.measures import judged_by, shown
from fedkf.report.runs import Run
from fedkf.runs.mixtures import mixtures

DECILES = tuple(range(0, 101, 10))
DRAWS = 1000


@dataclass(frozen=True)
class SiteScore:
    """What one site gets from a model."""

    client: int
    name: str
    value: float
    """Its accuracy, or what else the run is judged by."""
    tested: int | None
    metric: SiteMetric = SITE_METRICS[ACCURACY]
    recorded: Sequence[float | None] | None = None
    """Where the value plausibly lies, if the run says so."""

    @property
    def counted(self) -> bool:
        """Whether its value is a share of cases that were right."""
        return self.metric.name == ACCURACY

    @property
    def right(self) -> int | None:
        """How many of the tested cases were right."""
        known = self.counted and self.tested is not None
        return round(self.value * (self.tested or 0)) if known else None

    @property
    def interval(self) -> Sequence[float | None] | None:
        """Where its value plausibly lies, given how few cases were tested."""
        if self.right is not None and self.tested:
            return wilson(self.right, self.tested)
        return self.recorded

    def show(self, value: float | None = None) -> str:
        """Its value, or another of the same metric, with its unit."""
        return shown(self.metric, self.value if value is None else value)


def site_scores(run: Run, readout: str) -> list[SiteScore]:
    """Every site with test data, the worst served first."""
    score = run.score(readout)
    if score is None:
        return []
    metric = SITE_METRICS.get(score.metric, SITE_METRICS[ACCURACY])
    ends = score.sites.intervals.get(score.metric) or [None] * len(score.clients)
    sites = [
        SiteScore(k, run.site(k), a, run.tested(k), metric, span)
        for k, a, span in zip(score.clients, score.performance, ends, strict=True)
        if a is not None
    ]
    better = 1 if metric.higher_is_better else -1
    return sorted(sites, key=lambda site: (better * site.value, site.client))


def deciles(accuracies: list[float]) -> list[float]:
    """The accuracy that so many percent of the sites stay below, from the lowest to the highest."""
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
    own = {site.name: site.value for site in site_scores(alone, alone.readouts[0])}
    better = 1 if judged_by([run]).higher_is_better else -1
    return {
        site.name: better * (site.value - own[site.name])
        for site in site_scores(run, run.readouts[0])
        if site.name in own
    }


def fairness(run: Run, readout: str) -> dict[str, Any] | None:
    """The numbers of one readout, or None where no site has test data or they are no shares."""
    sites = site_scores(run, readout)
    if not sites or not sites[0].metric.percent:
        return None
    accuracies = [site.value for site in sites]
    result: dict[str, Any] = {
        "deciles": deciles(accuracies),
        "spread": max(accuracies) - min(accuracies),
        "mixtures": None,
    }
    sizes = [site.tested or 0 for site in sites]
    if all(sizes) and sites[0].metric.name == ACCURACY:  # other metrics do not mix
        result["mixtures"] = mixtures(accuracies, sizes, DRAWS, np.random.default_rng(0))
    return result
