"""Paired differences: every setting of a grid less a baseline on the same data and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedkf.metrics import METRICS, PAPER
from fedkf.paper.grid import ROW, label, row_key, solution
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column, number
from fedkf.runs.collect import READOUTS, Group, difference, differences
from fedkf.runs.statistics import CHANCE, Difference, ground, words

BASELINE = "fedavg"
STAR = "*"


def rest(group: Group) -> dict[str, Any]:
    """A group's place in the grid, its algorithm or variant aside."""
    return {key: value for key, value in group.point.items() if key != row_key(group.point)}


def data_settings(point: Mapping[str, Any]) -> dict[str, Any]:
    """What in a place in the grid says which data it is."""
    return {k: v for k, v in point.items() if k == "config" or k.startswith("data.")}


def baseline(group: Group, groups: Sequence[Group]) -> Group | None:
    """What a group is compared with: FedAvg elsewhere alike, or the first; None for itself.

    Where the grid holds no algorithms, it is the first group on the same data.
    """
    row = row_key(group.point)
    if row in group.point:
        names = [str(g.point[row]) for g in groups]
        name = BASELINE if BASELINE in names else names[0]
        found = [g for g in groups if g.point[row] == name and rest(g) == rest(group)]
    else:
        own = data_settings(group.point)
        found = [g for g in groups if data_settings(g.point) == own]
    return found[0] if found and found[0] is not group else None


def difference_table(title: str, groups: Sequence[Group]) -> ResultTable | None:
    """Every metric of every group less the baseline's, or None where nothing can be compared."""
    columns: list[Column] = []
    cells: dict[str, dict[int, Cell]] = {}
    grounds: dict[str, None] = {}
    bases: dict[str, None] = {}
    pairs = [(group, base) for group in groups if (base := baseline(group, groups)) is not None]
    for name in dict.fromkeys(place(group) for group, _ in pairs):
        for metric in METRICS:
            members = [(group, base) for group, base in pairs if place(group) == name]
            found = {
                row_name(group, readout): (differences(base, group, readout, metric), about)
                for group, base in members
                for readout in READOUTS
                if (about := difference(base, group, readout, metric)) is not None
            }
            if not found:
                continue
            sizes = [abs(value) for values, _ in found.values() for value in values]
            judged_by = members[0][1].judged_by  # as all are that differ from it
            column = replace(metric_column(name, metric, sizes, judged_by), ranked=False)
            for row, (values, about) in found.items():
                cell = Cell(tuple(values), text=shown(about, column))
                cells.setdefault(row, {})[len(columns)] = cell
                grounds[ground(about)] = None
            bases |= {base_name(base): None for _, base in members}
            columns.append(column)
    if not columns:
        return None
    rows = {
        row: [known.get(k, Cell()) for k in range(len(columns))] for row, known in cells.items()
    }
    return ResultTable(title, "solution", columns, rows, notes(list(bases), list(grounds)))


def notes(bases: Sequence[str], grounds: Sequence[str]) -> list[str]:
    """How to read the table."""
    return [
        f"Each run less that of {' or '.join(bases)} with the same data and seed: the mean, "
        f"{'; '.join(grounds)}.",
        "In brackets a 95 % interval: Student's t from three seeds on, for one seed a bootstrap "
        f"over its clients. {STAR}: it leaves out 0; one without: {CHANCE}.",
    ]


def place(group: Group) -> str:
    """The heading of a group's columns."""
    return ", ".join(label(key, value) for key, value in rest(group).items())


def row_name(group: Group, readout: str) -> str:
    row = row_key(group.point)
    return solution(str(group.point[row]), readout) if row in group.point else readout.upper()


def base_name(base: Group) -> str:
    """How the baseline is called in a note."""
    row = row_key(base.point)
    if row in base.point:
        return solution(str(base.point[row]), "aca").removesuffix(" (ACA)")
    return place(base) or "the first"


def shown(about: Difference, column: Column) -> str:
    """The mean in its column's unit, with its interval, and a star if that leaves out 0."""
    text = f"{'+' if about.mean >= 0 else ''}{number(about.mean, column)}"
    if about.interval is None:
        return text
    low, high = (number(value, column) for value in about.interval)
    return f"{text} [{low}, {high}]{f' {STAR}' if about.beyond_chance else ''}"


def paired_notes(groups: Sequence[Group], algorithm: str = "fedkf") -> list[str]:
    """One algorithm less FedAvg for every α and readout, in sentences for below a table."""
    found = []
    for group in groups:
        base = baseline(group, groups)
        if group.point.get(ROW) != algorithm or base is None or base.point[ROW] != BASELINE:
            continue
        for readout in READOUTS:
            known = {name: difference(base, group, readout, name) for name in PAPER}
            told = [f"{METRICS[k].label} {words(d, METRICS[k])}" for k, d in known.items() if d]
            if told:
                names = (solution(name, readout) for name in (algorithm, BASELINE))
                found.append(f"{' less '.join(names)}, {place(group)}: {'; '.join(told)}.")
    return found
