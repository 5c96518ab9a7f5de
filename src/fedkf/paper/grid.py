"""The table of a sweep: algorithms and readouts down, the rest of the grid across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkf.charts.labels import SETTINGS, algorithm_label, readout_label
from fedkf.metrics import METRICS
from fedkf.paper.published import Published
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column
from fedkf.runs.collect import Group, readouts_of

ROW = "algorithm.name"
VARIANT = "variant"


def row_key(point: Mapping[str, Any]) -> str:
    """What goes down a table: algorithms, or variants where the grid holds no algorithms."""
    return VARIANT if VARIANT in point and ROW not in point else ROW


def solution(algorithm: str, readout: str) -> str:
    """A row's name as the paper spells it."""
    return readout_label(algorithm_label(algorithm), readout)


def label(key: str, value: Any) -> str:
    """A column's group: `α = 0.1`."""
    short = SETTINGS.get(key, key.removeprefix("federation.").removeprefix("data."))
    return str(value) if key in ("config", VARIANT) else f"{short} = {value}"


def grid_table(
    title: str,
    groups: Sequence[Group],
    metrics: Sequence[str] | None = None,
    published: Mapping[tuple[str, str, str, str], Published] | None = None,
    notes: Sequence[str] = (),
) -> ResultTable:
    """Mean ± std of each metric, of all unless some are named.

    `published` is by algorithm, readout, column's group and metric. Where the grid holds no
    algorithms, rows are the variants, or the readouts alone.
    """
    across: dict[str, dict[str, Group]] = {}
    for group in groups:
        row = row_key(group.point)
        name = ", ".join(label(k, v) for k, v in group.point.items() if k != row)
        across.setdefault(name, {})[str(group.point.get(row, ""))] = group
    algorithms = list(dict.fromkeys(str(g.point.get(row_key(g.point), "")) for g in groups))
    readouts = readouts_of(groups)
    columns: list[Column] = []
    rows: dict[str, list[Cell]] = {}
    for name, members in across.items():
        for metric in METRICS if metrics is None else metrics:
            shown: list[float] = []
            for algorithm in algorithms:
                for readout in readouts:
                    row = solution(algorithm, readout) if algorithm else readout.upper()
                    member = members.get(algorithm)
                    claimed = (published or {}).get((algorithm, readout, name, metric))
                    values = member.values(readout, metric) if member else ()
                    shown += [*values, *([claimed.mean] if claimed else [])]
                    rows.setdefault(row, []).append(Cell(values, claimed))
            judged_by = next(iter(members.values())).judged_by
            columns.append(metric_column(name, metric, shown, judged_by))
    return ResultTable(title, "solution", columns, rows, notes)
