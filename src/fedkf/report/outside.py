"""Sites that took no part: what the models do where they were not trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkf.core.scores import Score
from fedkf.metrics.intervals import wilson
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, over
from fedkf.report.figures import model_label
from fedkf.report.runs import Run


def held_out(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row per model and held-out site, with the participants' numbers beside it."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        last = run.evaluated[-1].holdout if run.evaluated else None
        if last is None:
            continue
        for readout in run.readouts:
            score, numbers = last.readouts.get(readout), run.numbers(readout)
            if score is None or score.metric not in SITE_METRICS:
                continue
            shown = over(score.metric)
            beside = [shown[name].show(numbers[name]) if numbers else "–" for name in BESIDE]
            about = SITE_METRICS[score.metric]
            common = {"model": model_label(run, readout), "metric": about.heading, "beside": beside}
            for place, (name, tested) in enumerate(zip(last.sites, last.tested, strict=True)):
                ends = interval(score, place, tested)
                rows.append(
                    {
                        **common,
                        "site": name,
                        "tested": tested,
                        "value": about.show(score.performance[place]),
                        "interval": " to ".join(map(about.show, ends)) if ends else None,
                    }
                )
    return rows


BESIDE = ("amp", "wlp")


def interval(score: Score, place: int, tested: int) -> Sequence[float | None] | None:
    """Where a site's number plausibly lies."""
    value = score.performance[place]
    if value is None:
        return None
    if score.metric == ACCURACY:
        return wilson(round(value * tested), tested)
    found = score.sites.intervals.get(score.metric)
    return found[place] if found and place < len(found) else None
