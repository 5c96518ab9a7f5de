"""Runs that differ in their seeds only, taken together: means and how far they scatter."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from fedkf.charts.labels import algorithm_label
from fedkf.metrics import METRICS
from fedkf.report.runs import Run

ASIDE = ("provenance", "output", "engine")
SEEDED = ("data", "federation")


def settings_of(run: Run) -> str:
    """What must be the same for two runs to be repetitions of each other."""
    kept = {key: value for key, value in run.config.items() if key not in ASIDE}
    for part in SEEDED:
        if isinstance(kept.get(part), dict):
            kept[part] = {key: value for key, value in kept[part].items() if key != "seed"}
    done = run.rounds[-1].round if run.rounds else 0
    return json.dumps([run.algorithm, done, kept], sort_keys=True, default=str)


def repeats(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row per readout of every setting that was run with more than one seed.

    The same setting with the same seed on the same data is the same run, and counts once.
    """
    groups: dict[str, dict[object, Run]] = {}
    for run in runs:
        if run.readouts and run.config:
            again = run.pairing or (run.data_hash, run.seed)
            groups.setdefault(settings_of(run), {}).setdefault(again, run)
    rows = []
    for group in (list(found.values()) for found in groups.values()):
        for readout in group[0].readouts if len(group) > 1 else ():
            numbers = [run.numbers(readout) for run in group]
            spread = {}
            for metric in METRICS:
                values = [n[metric] for n in numbers if n is not None]
                known = [value for value in values if value is not None]
                if len(known) > 1:
                    spread[metric] = (statistics.fmean(known), statistics.stdev(known))
            if spread:
                rows.append(
                    {
                        "what": algorithm_label(group[0].algorithm),
                        "like": group[0].name,
                        "readout": "own" if group[0].alone else readout.upper(),
                        "runs": len(group),
                        "metrics": spread,
                    }
                )
    return rows
