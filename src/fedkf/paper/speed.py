"""From finished runs to the paper's tables of speed: rounds, time and data to a target."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedkf.charts.labels import algorithm_label
from fedkf.paper import published
from fedkf.paper.analyses import by_config, named
from fedkf.paper.grid import ROW, solution
from fedkf.paper.pace import Pace
from fedkf.paper.published import DATA, Published, Reached
from fedkf.paper.scales import STANDS_FOR, Scale
from fedkf.paper.tables import Cell, Column, ResultTable
from fedkf.runs.collect import READOUTS, Group
from fedkf.runs.suite import Finished

AS_THEY_RAN = "Times are those of the runs, whatever else the machine did meanwhile."


def first_round(run: Finished, readout: str, target: float) -> int | None:
    """The first evaluated round with AMP at least `target`."""
    for record in run.rounds:
        score = (record.readouts or {}).get(readout)
        found = score["amp"] if score else None
        if found is not None and found >= target:
            return record.round
    return None


def seconds(run: Finished) -> float:
    """Time of training and aggregation; evaluation and checkpoints are apart."""
    return run.summary.seconds["train"] + run.summary.seconds["aggregate"]


def sent(run: Finished, rounds: int) -> float:
    """Megabytes down and up in the first rounds."""
    return sum(sum(record.bytes.values()) for record in run.rounds[:rounds]) / 1e6


@dataclass(frozen=True)
class Cost:
    """Something that rounds cost: what a run's first rounds took, and what the paper says."""

    name: str
    unit: str
    digits: int
    amount: Callable[[Finished, int], float]
    published: Mapping[tuple[str, str, str], Reached]
    note: str = ""


def to_target(cost: Cost, groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """How much of something each solution needs for the AMP of FedAvg (ACA) after its last round.

    A solution's run is held against FedAvg's on the same data with the same seed.
    """
    tables, claimed = [], bool(cost.published)
    for config, members in by_config(groups).items():
        fedavg = next((g for g in members if g.point[ROW] == "fedavg"), None)
        finals = {run.pairing: run.final("aca") for run in (fedavg.runs if fedavg else ())}
        targets = {pair: n["amp"] for pair, n in finals.items() if n and n["amp"] is not None}
        rows = {}
        for group in members:
            for readout in READOUTS:
                paper = cost.published.get((STANDS_FOR.get(config, ""), group.point[ROW], readout))
                needed = replace(
                    reach(cost, group, readout, targets), beside=show_reached(paper, cost.unit)
                )
                row = rows[solution(group.point[ROW], readout)] = [needed]
                if claimed:
                    row.append(speedup(cost, needed, fedavg, paper))
        unit = cost.unit
        columns = [
            Column("", cost.name, digits=cost.digits, lower=True, unit=unit, unit_latex=unit)
        ]
        if claimed:
            columns.append(Column("", "speed-up", digits=1, ranked=False))
        notes = [
            "To the AMP that FedAvg (ACA) has after its last round, with the same seed; the rule "
            "is the same for FedAvg, which may have been there before.",
            scale.differs() if claimed else scale.about,
            *([cost.note] if cost.note else []),
        ]
        where = named(config) if claimed else DATA.get(config, config)
        title = f"{cost.name} to FedAvg's AMP on {where}, α = 0.1"
        tables.append(ResultTable(title, "solution", columns, rows, notes))
    return tables


def reach(cost: Cost, group: Group, readout: str, targets: Mapping[tuple[str, int], float]) -> Cell:
    """What it cost to reach each seed's target; "> …" where none did, with a count where some."""
    known = [run for run in group.runs if run.pairing in targets]
    found = [(run, first_round(run, readout, targets[run.pairing])) for run in known]
    values = tuple(cost.amount(run, rounds) for run, rounds in found if rounds is not None)
    if not known or len(values) == len(known):
        return Cell(values)
    if not values:
        most = statistics.fmean(cost.amount(run, run.summary.rounds) for run in known)
        return Cell((), text=f"> {most:.{cost.digits}f}")
    text = f"{statistics.fmean(values):.{cost.digits}f} ({len(values)} of {len(known)} seeds)"
    return Cell(values, text=text)


def speedup(cost: Cost, needed: Cell, fedavg: Group | None, claimed: Reached | None) -> Cell:
    """What all rounds of FedAvg cost, over what was needed; "< 1" if it was not reached."""
    beside = "" if claimed is None else f"{'' if claimed.within else '< '}{claimed.speedup:g}"
    whole = [cost.amount(run, run.summary.rounds) for run in (fedavg.runs if fedavg else ())]
    if needed.mean is not None and whole:
        return Cell((statistics.fmean(whole) / needed.mean,), beside=beside)
    return Cell(text="< 1" if needed.text else None, beside=beside)


def show_reached(reached: Reached | None, unit: str) -> str:
    """The paper's amount with its unit, and > where it was not reached."""
    if reached is None:
        return ""
    sign = "" if reached.within else "> "
    return f"{sign}{reached.amount:g}{f' {unit}' if unit else ''}"


def rounds_to_target(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Rounds, beside the paper's."""
    claimed = published.rounds_to_target()
    return to_target(Cost("rounds", "", 0, lambda run, rounds: rounds, claimed), groups, scale)


def time_to_target(
    groups: Sequence[Group], scale: Scale, pace: Pace | None = None
) -> list[ResultTable]:
    """Seconds, beside the paper's. A round lasts as long as was measured for its method.

    Methods that were not measured are left out: the seconds of their runs are of another day.
    Without any measurement every round of a run is taken to last as long as its mean.
    """
    note, lasts = AS_THEY_RAN, dict[Path, float]()
    if pace:
        known = [group for group in groups if paced(group) in pace.seconds]
        lasts = {run.path: pace.seconds[paced(group)] for group in known for run in group.runs}
        gone = [algorithm_label(group.point[ROW]) for group in groups if group not in known]
        note = pace.about() + (f" Not measured: {', '.join(gone)}." if gone else "")
        groups = known

    def spent(run: Finished, rounds: int) -> float:
        return rounds * lasts.get(run.path, seconds(run) / run.summary.rounds)

    return to_target(Cost("time", "s", 1, spent, published.time_to_target(), note), groups, scale)


def paced(group: Group) -> tuple[str, str]:
    """Under what a group's rounds are measured."""
    return str(group.point.get("config")), str(group.point[ROW])


def bytes_to_target(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Megabytes; the paper has no such table."""
    return to_target(Cost("data sent", "MB", 1, sent, {}), groups, scale)


def time(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Seconds of all rounds, one client after the other, and the ratio to FedAvg."""
    tables = []
    for config, members in by_config(groups).items():
        claimed = {a: s for (d, a), s in published.time().items() if d == STANDS_FOR.get(config)}
        base = next((g for g in members if g.point[ROW] == "fedavg"), None)
        reference = statistics.fmean(map(seconds, base.runs)) if base and base.runs else None
        rows = {}
        for group in members:
            name = group.point[ROW]
            spent = tuple(seconds(run) for run in group.runs)
            ratio = tuple(s / reference for s in spent) if reference else ()
            paper = claimed.get(name)
            rows[algorithm_label(name)] = [
                Cell(spent, Published(paper, math.nan) if paper else None),
                Cell(ratio, Published(paper / claimed["fedavg"], math.nan) if paper else None),
            ]
        columns = [
            Column("", "time", digits=1, lower=True, unit="s", unit_latex="s"),
            Column("", "ratio to FedAvg", digits=2, ranked=False),
        ]
        notes = ["Training and aggregation; evaluation is left out.", scale.differs()]
        if any(run.config.engine.workers != 0 for g in members for run in g.runs):
            notes.insert(0, "Some runs trained clients in parallel: their time is not serial.")
        title = f"Time of all rounds on {named(config)}, α = 0.1"
        tables.append(ResultTable(title, "solution", columns, rows, notes))
    return tables
