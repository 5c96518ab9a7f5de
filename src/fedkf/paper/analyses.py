"""From finished runs to the paper's tables: performance, speed, robustness, ablation, tuning."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fedkf.paper import published
from fedkf.paper.grid import ROW, grid_table, label, solution
from fedkf.paper.published import DATA, METRICS, TITLES, Case, Published, Reached
from fedkf.paper.scales import STANDS_FOR, Scale
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column
from fedkf.runs.collect import READOUTS, Group
from fedkf.runs.suite import Finished

CURVES_ALPHA = 0.1


def by_config(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each data set, in order."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(str(group.point["config"]), []).append(group)
    return found


def named(config: str) -> str:
    """A data set's name, and for which of the paper's it stands."""
    own = DATA.get(config, config)
    told = STANDS_FOR.get(config)
    return own if told in (config, None) else f"{own} (beside: {DATA[told]})"


def without_config(groups: Sequence[Group]) -> list[Group]:
    return [Group({k: v for k, v in g.point.items() if k != "config"}, g.runs) for g in groups]


# -- performance -----------------------------------------------------------------------------------


def performance(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """AMP, FM and WLP of every solution for every α, one table a data set."""
    tables = []
    for config, members in by_config(groups).items():
        alphas = dict.fromkeys(g.point["data.alpha"] for g in members)
        beside = told_performance(STANDS_FOR.get(config), alphas)
        title = f"Performance of different solutions on {named(config)}"
        tables.append(
            grid_table(title, without_config(members), published=beside, notes=[scale.differs()])
        )
    return tables


def told_performance(
    data: str | None, alphas: Iterator[float] | Mapping[float, Any]
) -> dict[tuple[str, str, str, str], Published]:
    """The paper's cells by algorithm, readout, column's group and metric; T1's table included."""
    beside: dict[tuple[str, str, str, str], Published] = {}
    for alpha in alphas:
        group = label("data.alpha", alpha)
        for case, cell in published.performance().items():
            if case.data == data and case.alpha == alpha:
                beside[case.algorithm, case.readout, group, case.metric] = cell
        if alpha == CURVES_ALPHA:
            for (name, readout, metric), cell in published.t1().items():
                if name == data:
                    beside.setdefault(("fedavg", readout, group, metric), cell)
    return beside


def scores(groups: Sequence[Group]) -> dict[Case, float]:
    """Means over seeds, for the findings."""
    found = {}
    for group in groups:
        point = group.point
        for readout in READOUTS:
            for metric in METRICS:
                if values := group.values(readout, metric):
                    case = Case(
                        point["config"], float(point["data.alpha"]), point[ROW], readout, metric
                    )
                    found[case] = statistics.fmean(values)
    return found


def ablation(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """T1 and T2, alone and together, out of the runs of FedAvg, FedKF- and FedKF."""
    roles = {
        ("fedavg", "aca"): "neither",
        ("fedavg", "oca"): "T1 as the final model",
        ("fedkf-", "aca"): "T2, taught by ACA",
        ("fedkf-", "oca"): "T2, taught by ACA; T1 as the final model",
        ("fedkf", "aca"): "T2, taught by T1",
        ("fedkf", "oca"): "T2, taught by T1; T1 as the final model",
    }
    tables = []
    for table in performance([g for g in groups if (g.point[ROW], "aca") in roles], scale):
        renamed = {
            f"{role}: {solution(*key)}": table.rows[solution(*key)]
            for key, role in roles.items()
            if solution(*key) in table.rows
        }
        title = table.title.replace("Performance of different solutions", "T1 and T2")
        tables.append(ResultTable(title, "with", table.columns, renamed, table.notes))
    return tables


def t1(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """FedAvg against FedAvg (OCA)."""
    own = [g for g in groups if g.point[ROW] == "fedavg"]
    return [
        ResultTable(
            t.title.replace("Performance of different solutions", "FedAvg and FedAvg (OCA)"),
            t.corner,
            t.columns,
            t.rows,
            t.notes,
        )
        for t in performance(own, scale)
    ]


def tuning(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Every value of each baseline's grid; the readout is the algorithm's own, ACA."""
    tables = []
    for config, members in by_config(groups).items():
        for algorithm, (option, _) in scale.tuning.items():
            own = [g for g in members if g.point[ROW] == algorithm]
            if not own:
                continue
            rows = {
                f"{option} = {g.point[f'algorithm.{option}']:g}": [
                    Cell(g.values("aca", metric)) for metric in METRICS
                ]
                for g in own
            }
            columns = [
                metric_column("", m, [v for g in own for v in g.values("aca", m)]) for m in METRICS
            ]
            title = f"{TITLES[algorithm]}'s {option} on {DATA.get(config, config)}, α = 0.1"
            tables.append(ResultTable(title, "value", columns, rows, [scale.about]))
    return tables


# -- speed -----------------------------------------------------------------------------------------


def first_round(run: Finished, readout: str, target: float) -> int | None:
    """The first evaluated round with AMP at least `target`."""
    for record in run.rounds:
        score = (record["readouts"] or {}).get(readout)
        if score and score["amp"] is not None and score["amp"] >= target:
            return int(record["round"])
    return None


def seconds(run: Finished) -> float:
    """Time of training and aggregation; evaluation and checkpoints are apart."""
    spent: Mapping[str, float] = run.summary["seconds"]
    return spent["train"] + spent["aggregate"]


def sent(run: Finished, rounds: int) -> float:
    """Megabytes down and up in the first rounds."""
    return sum(sum(record["bytes"].values()) for record in run.rounds[:rounds]) / 1e6


Amount = Callable[[Finished, int], float]


def to_target(
    what: str,
    groups: Sequence[Group],
    scale: Scale,
    amount: Amount,
    unit: str,
    digits: int,
    told: Mapping[tuple[str, str, str], Reached] | None,
) -> list[ResultTable]:
    """How much of something each solution needs for the AMP of FedAvg (ACA) after its last round.

    Seed by seed: a solution's run is held against FedAvg's with the same seed.
    """
    tables = []
    for config, members in by_config(groups).items():
        fedavg = next((g for g in members if g.point[ROW] == "fedavg"), None)
        targets = {
            run.summary["seed"]: run.summary["readouts"]["aca"]["amp"]
            for run in (fedavg.runs if fedavg else ())
        }
        rows = {}
        for group in members:
            for readout in READOUTS:
                key = (STANDS_FOR.get(config, ""), group.point[ROW], readout)
                paper = told.get(key) if told else None
                needed = reach(group, readout, targets, amount, digits, show_reached(paper, unit))
                row = rows[solution(group.point[ROW], readout)] = [needed]
                if told:
                    row.append(speedup(needed, fedavg, amount, paper))
        columns = [Column("", what, digits=digits, lower=True, unit=unit, unit_latex=unit)]
        if told:
            columns.append(Column("", "speed-up", digits=1, ranked=False))
        notes = [
            "To the AMP that FedAvg (ACA) has after its last round, with the same seed; the rule "
            "is the same for FedAvg, which may have been there before.",
            scale.differs() if told else scale.about,
        ]
        title = f"{what} to FedAvg's AMP on {named(config) if told else DATA.get(config, config)}"
        tables.append(ResultTable(f"{title}, α = 0.1", "solution", columns, rows, notes))
    return tables


def reach(
    group: Group,
    readout: str,
    targets: Mapping[int, float],
    amount: Amount,
    digits: int,
    beside: str,
) -> Cell:
    known = [run for run in group.runs if run.summary["seed"] in targets]
    found = [(run, first_round(run, readout, targets[run.summary["seed"]])) for run in known]
    values = tuple(amount(run, rounds) for run, rounds in found if rounds is not None)
    if not known or len(values) == len(known):
        return Cell(values, beside=beside)
    most = statistics.fmean(amount(run, run.summary["rounds"]) for run in known)
    if not values:
        return Cell((), text=f"> {most:.{digits}f}", beside=beside)
    text = f"{statistics.fmean(values):.{digits}f} ({len(values)} of {len(known)} seeds)"
    return Cell(values, text=text, beside=beside)


def speedup(needed: Cell, fedavg: Group | None, amount: Amount, told: Reached | None) -> Cell:
    """What all rounds of FedAvg cost, over what was needed; "< 1" if it was not reached."""
    beside = "" if told is None else f"{'' if told.within else '< '}{told.speedup:g}"
    whole = [amount(run, run.summary["rounds"]) for run in (fedavg.runs if fedavg else ())]
    if needed.mean is not None and whole:
        return Cell((statistics.fmean(whole) / needed.mean,), beside=beside)
    return Cell(text="< 1" if needed.text else None, beside=beside)


def show_reached(reached: Reached | None, unit: str) -> str:
    if reached is None:
        return ""
    sign = "" if reached.within else "> "
    return f"{sign}{reached.amount:g}{f' {unit}' if unit else ''}"


def rounds_to_target(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    told = published.rounds_to_target()
    return to_target("rounds", groups, scale, lambda run, rounds: rounds, "", 0, told)


def time_to_target(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Rounds × time / T."""
    told = published.time_to_target()

    def spent(run: Finished, rounds: int) -> float:
        return rounds * seconds(run) / float(run.summary["rounds"])

    return to_target("time", groups, scale, spent, "s", 1, told)


def bytes_to_target(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    return to_target("data sent", groups, scale, sent, "MB", 1, None)


def time(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Seconds of all rounds, one client after the other, and the ratio to FedAvg."""
    tables = []
    for config, members in by_config(groups).items():
        told = {a: s for (d, a), s in published.time().items() if d == STANDS_FOR.get(config)}
        base = next((g for g in members if g.point[ROW] == "fedavg"), None)
        reference = statistics.fmean(map(seconds, base.runs)) if base and base.runs else None
        rows = {}
        for group in members:
            name = group.point[ROW]
            spent = tuple(seconds(run) for run in group.runs)
            ratio = tuple(s / reference for s in spent) if reference else ()
            paper = told.get(name)
            rows[TITLES.get(name, name)] = [
                Cell(spent, Published(paper, math.nan) if paper else None),
                Cell(ratio, Published(paper / told["fedavg"], math.nan) if paper else None),
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


# -- steadiness and drift --------------------------------------------------------------------------


def robustness(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Standard deviation of the change from round to round, over the last half of the rounds."""
    tables = []
    for config, members in by_config(groups).items():
        rows, shown = {}, dict[str, list[float]]()
        for group in members:
            for readout in READOUTS:
                cells = []
                for metric in METRICS:
                    values = [wobble(run, readout, metric) for run in group.runs]
                    cells.append(Cell(tuple(v for v in values if v is not None)))
                    shown.setdefault(metric, []).extend(cells[-1].values)
                rows[solution(group.point[ROW], readout)] = cells
        columns = [
            Column("", m.upper(), 100, 2, lower=True, unit="%", unit_latex=r"\%")
            if m != "fm"
            else metric_column("", m, shown.get(m, []))
            for m in METRICS
        ]
        title = (
            f"Change from round to round (std, last half) on {DATA.get(config, config)}, α = 0.1"
        )
        tables.append(ResultTable(title, "solution", columns, rows, [scale.about]))
    return tables


def wobble(run: Finished, readout: str, metric: str) -> float | None:
    scored = [r["readouts"][readout][metric] for r in run.rounds if r["readouts"]]
    half = scored[len(scored) // 2 :]
    steps = [b - a for a, b in itertools.pairwise(half)]
    return statistics.stdev(steps) if len(steps) > 1 else None


def drift(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """‖w_k − w‖, from the model that a client got to the one that it returned."""
    tables = []
    for config, members in by_config(groups).items():
        rows = {}
        for group in members:
            halves: list[tuple[float, float]] = []
            for run in group.runs:
                values = drifts(run)
                if len(values) > 1:
                    middle = len(values) // 2
                    halves.append(
                        (statistics.fmean(values[:middle]), statistics.fmean(values[middle:]))
                    )
            columns = zip(*halves, strict=True) if halves else ((), ())
            rows[TITLES.get(group.point[ROW], group.point[ROW])] = [Cell(tuple(c)) for c in columns]
        heads = [
            Column("", f"{half} half of the rounds", lower=True, digits=3)
            for half in ("first", "last")
        ]
        title = f"Drift ‖w_k − w‖ on {DATA.get(config, config)}, α = 0.1"
        notes = ["Mean over the active clients.", scale.about]
        tables.append(ResultTable(title, "algorithm", heads, rows, notes))
    return tables


def drifts(run: Finished) -> list[float]:
    """Per round; empty for records from before it was recorded."""
    return [r["losses"]["drift"] for r in run.rounds if "drift" in r["losses"]]
