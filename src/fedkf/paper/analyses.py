"""From finished runs to the paper's tables: performance, ablation, tuning, robustness, drift."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedkf.charts.labels import algorithm_label
from fedkf.paper import published
from fedkf.paper.differences import paired_notes
from fedkf.paper.grid import ROW, grid_table, label, solution
from fedkf.paper.published import DATA, PAPER_METRICS, Case, Published
from fedkf.paper.scales import STANDS_FOR, Scale
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column
from fedkf.runs.collect import READOUTS, Group
from fedkf.runs.suite import Finished

CURVES_ALPHA = 0.1
PERFORMANCE = "Performance of different solutions"


def by_config(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each data set, in order."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(str(group.point["config"]), []).append(group)
    return found


def named(config: str) -> str:
    """A data set's name, and for which of the paper's it stands."""
    own = DATA.get(config, config)
    claimed = STANDS_FOR.get(config)
    return own if claimed in (config, None) else f"{own} (beside: {DATA[claimed]})"


def without_config(groups: Sequence[Group]) -> list[Group]:
    """The groups without the data set in their place in the grid."""
    return [Group({k: v for k, v in g.point.items() if k != "config"}, g.runs) for g in groups]


def performance(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """AMP, FM and WLP of every solution for every α, one table a data set."""
    tables = []
    for config, members in by_config(groups).items():
        alphas = dict.fromkeys(g.point["data.alpha"] for g in members)
        beside = told_performance(STANDS_FOR.get(config), alphas)
        title = f"{PERFORMANCE} on {named(config)}"
        own = without_config(members)
        notes = [scale.differs(), *paired_notes(own)]
        tables.append(grid_table(title, own, PAPER_METRICS, beside, notes))
    return tables


def told_performance(
    data: str | None, alphas: Iterable[float]
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
            for metric in PAPER_METRICS:
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
        title = table.title.replace(PERFORMANCE, "T1 and T2")
        tables.append(replace(table, title=title, corner="with", rows=renamed))
    return tables


def t1(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """FedAvg against FedAvg (OCA)."""
    own = [g for g in groups if g.point[ROW] == "fedavg"]
    tables = performance(own, scale)
    return [
        replace(t, title=t.title.replace(PERFORMANCE, "FedAvg and FedAvg (OCA)")) for t in tables
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
                    Cell(g.values("aca", metric)) for metric in PAPER_METRICS
                ]
                for g in own
            }
            columns = [
                metric_column("", m, [v for g in own for v in g.values("aca", m)])
                for m in PAPER_METRICS
            ]
            title = (
                f"{algorithm_label(algorithm)}'s {option} on {DATA.get(config, config)}, α = 0.1"
            )
            tables.append(ResultTable(title, "value", columns, rows, [scale.about]))
    return tables


def robustness(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Standard deviation of the change from round to round, over the last half of the rounds."""
    tables = []
    for config, members in by_config(groups).items():
        rows, shown = {}, dict[str, list[float]]()
        for group in members:
            for readout in READOUTS:
                cells = []
                for metric in PAPER_METRICS:
                    values = [unsteadiness(run, readout, metric) for run in group.runs]
                    cells.append(Cell(tuple(v for v in values if v is not None)))
                    shown.setdefault(metric, []).extend(cells[-1].values)
                rows[solution(group.point[ROW], readout)] = cells
        columns = [
            replace(metric_column("", m, shown.get(m, [])), lower=True) for m in PAPER_METRICS
        ]
        title = (
            f"Change from round to round (std, last half) on {DATA.get(config, config)}, α = 0.1"
        )
        tables.append(ResultTable(title, "solution", columns, rows, [scale.about]))
    return tables


def unsteadiness(run: Finished, readout: str, metric: str) -> float | None:
    """How much the changes from one evaluation to the next scatter; None for too few of them."""
    scores = [(r.readouts or {}).get(readout) for r in run.rounds]  # OCA may begin later
    known = [value for score in scores if score and (value := score[metric]) is not None]
    half = known[len(known) // 2 :]
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
            rows[algorithm_label(group.point[ROW])] = [Cell(tuple(c)) for c in columns]
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
    return [r.losses["drift"] for r in run.rounds if "drift" in r.losses]
