"""Sites that took no part: what the models do where they were not trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkf.report.fairness import SiteScore
from fedkf.report.figures import model_label
from fedkf.report.runs import Run


def held_out(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row per model and held-out site, with the participants' numbers beside it."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        last = run.evaluated[-1].holdout if run.evaluated else None
        for readout in run.readouts if last else ():
            score = last.readouts.get(readout) if last else None
            if last is None or score is None:
                continue
            for name, tested, accuracy in zip(last.sites, last.tested, score.accuracy, strict=True):
                if accuracy is not None:
                    site = SiteScore(len(rows), name, accuracy, tested)
                    numbers = run.numbers(readout)
                    rows.append({"model": model_label(run, readout), "site": site, "of": numbers})
    return rows
