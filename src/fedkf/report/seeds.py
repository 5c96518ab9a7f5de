"""Seeds: runs that differ in their seeds only, as one curve of means with what they scatter."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from fedkf.charts.labels import algorithm_label
from fedkf.report.repeats import settings_of
from fedkf.report.runs import Run

Rows = list[tuple[float, float]]
"""Rounds and values."""


def by_setting(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs in groups of one setting; one of the same seed on the same data counts once."""
    groups: dict[str, dict[object, Run]] = {}
    for run in runs:
        known = run.config and run.readouts
        key = settings_of(run) if known else str(run.path)
        again = (run.pairing or (run.data_hash, run.seed)) if known else None
        groups.setdefault(key, {}).setdefault(again, run)
    return [list(group.values()) for group in groups.values()]


def titled(groups: Sequence[Sequence[Run]]) -> list[list[Run]]:
    """The groups with labels for what they share, where they are several runs."""
    titles = [algorithm_label(group[0].algorithm) for group in groups]
    found = []
    for title, group in zip(titles, groups, strict=True):
        label = group[0].label
        if len(group) > 1:
            shared = f" · {common([run.name for run in group])}" if titles.count(title) > 1 else ""
            label = f"{title}{shared}, {len(group)} seeds"
        found.append([replace(run, label=label) for run in group])
    return found


def common(names: Sequence[str]) -> str:
    """What folders' names begin with, without the word before what differs."""
    first, last = min(names), max(names)  # what these share, all do
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    start = "".join(a for a, _ in same)
    return re.sub(r"[\W_]*(data-)?(seed)?[\W_]*$", "", start) or names[0]


def mean_curve(curves: Sequence[Rows]) -> tuple[Rows, list[float]]:
    """Means by round over several curves, where all have a value, and their standard deviations."""
    found = [dict(rows) for rows in curves]
    shared = [x for x, _ in curves[0] if all(x in rows for rows in found)]
    values = [[rows[x] for rows in found] for x in shared]
    means = [(x, statistics.fmean(some)) for x, some in zip(shared, values, strict=True)]
    return means, [statistics.stdev(some) if len(some) > 1 else 0.0 for some in values]
