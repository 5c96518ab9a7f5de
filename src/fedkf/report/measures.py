"""What runs are judged by at each site: how it is shown, and a table of all that sites said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkf.charts.labels import percent
from fedkf.core.scores import Score
from fedkf.metrics import Metric
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, SiteMetric, over
from fedkf.report.runs import Run

LISTED = 60
"""Sites in a table of them."""


def judged_by(runs: Sequence[Run]) -> SiteMetric:
    """What the first run that was evaluated is judged by."""
    name = next((run.metric for run in runs if run.readouts), ACCURACY)
    return SITE_METRICS.get(name, SITE_METRICS[ACCURACY])


def metrics_of(runs: Sequence[Run]) -> dict[str, Metric]:
    """AMP, FM, WLP and the rest as they are over that."""
    return over(judged_by(runs).name)


def alike(runs: Sequence[Run]) -> list[Run]:
    """The runs that are judged by what the first is; others cannot be in one picture with it."""
    name = judged_by(runs).name
    return [run for run in runs if run.metric == name or not run.readouts]


def shown(metric: SiteMetric, value: float | None) -> str:
    """A site's value, or an average of them, with its unit."""
    return percent(value) if metric.percent else metric.show(value)


def site_tables(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A table for each model of which sites said more than how often it is right."""
    made = []
    for run in runs:
        for readout in run.readouts:
            score = run.score(readout)
            if score is not None and score.sites.values:
                known = [SITE_METRICS[name] for name in score.sites.values if name in SITE_METRICS]
                known.sort(key=lambda metric: metric.name != run.metric)
                rows = site_rows(run, score, known)
                made.append(
                    {
                        "run": run,
                        "readout": readout,
                        "heads": [metric.heading for metric in known],
                        "rows": rows,
                        "left_out": len(score.clients) - len(rows),
                        "classes": class_rows(run, score),
                    }
                )
    return made


def site_rows(run: Run, score: Score, metrics: Sequence[SiteMetric]) -> list[dict[str, Any]]:
    """Each site's values with their intervals."""
    rows, sites = [], score.sites
    for place, client in enumerate(score.clients[:LISTED]):
        cells = [
            cell(m, sites.values[m.name][place], sites.intervals.get(m.name), place)
            for m in metrics
        ]
        rows.append({"name": run.site(client), "tested": run.tested(client), "cells": cells})
    return rows


def cell(
    metric: SiteMetric,
    value: float | None,
    ends: Sequence[Sequence[float | None] | None] | None,
    place: int,
) -> tuple[str, str]:
    """A value, and its interval where there is one."""
    span = ends[place] if ends else None
    text = f"{metric.show(span[0])} to {metric.show(span[1])}" if span else ""
    return metric.show(value), text


def class_rows(run: Run, score: Score) -> dict[str, Any] | None:
    """The sensitivity of each class at each site, with how many cases it is of."""
    if not score.sites.support:
        return None
    sites, about = score.sites, SITE_METRICS["sensitivity"]
    count = max(len(row) for row in sites.support)
    names = [*run.partition.class_names]
    names += [str(k) for k in range(len(names), count)]
    rows = []
    for place, client in enumerate(score.clients[:LISTED]):
        support, values = sites.support[place], sites.sensitivity[place]
        spans = sites.sensitivity_intervals[place] if sites.sensitivity_intervals else ()
        cells = [
            (*cell(about, values[k], spans, k), support[k]) if k < len(support) else ("–", "", 0)
            for k in range(count)
        ]
        rows.append({"name": run.site(client), "cells": cells})
    return {"names": names[:count], "rows": rows}
