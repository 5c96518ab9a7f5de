"""Federations that nature divided: which runs tell about them, and the table that is made of them.

Their protocols are the presets of the same names. What of each task is judged (accuracy, AUROC,
concordance) is said there as well; AMP and WLP are over that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fedkf import algorithms
from fedkf.charts.labels import algorithm_label
from fedkf.core.errors import UserError
from fedkf.data.catalog import find
from fedkf.data.natural import NATURAL
from fedkf.metrics import METRICS
from fedkf.metrics.sites import SITE_METRICS
from fedkf.paper.analyses import by_config
from fedkf.paper.differences import BASELINE, STAR, shown
from fedkf.paper.grid import ROW, solution
from fedkf.paper.scales import Scale, installed
from fedkf.paper.speed import AS_THEY_RAN, seconds
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column
from fedkf.runs.collect import PERSONAL, READOUTS, Group, pairs
from fedkf.runs.judging import judgement_of
from fedkf.runs.statistics import CHANCE, over_seeds
from fedkf.runs.suite import Plan, make_plan

FEDERATIONS = ("heart", "tcga", "har", "ecg", "icu", "audiomnist", "pacs")
METHODS = ("local", "fedavg", "fedprox", "scaffold", "fedyogi", "fedkf-", "fedkf", "fedkf+")
ALONE = "local"
OVERALL = "over all"

SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "smoke",
            "two short rounds",
            FEDERATIONS,
            {"federation.rounds": 2, "federation.local_epochs": 1},
            methods=METHODS,
        ),
        Scale("small", "the presets' protocols", FEDERATIONS, methods=METHODS),
        Scale(
            "paper",
            "the presets' protocols",
            FEDERATIONS,
            seeds=(0, 1, 2),
            methods=METHODS,
        ),
    )
}


def site_plans(scale: Scale) -> list[Plan]:
    """Every algorithm on every federation; a seed is that of the division as well."""
    here, _ = installed(scale.methods)
    points: list[dict[str, Any]] = [
        {"config": config, ROW: name, "data.seed": seed, "federation.seed": seed}
        for config in scale.configs
        for name in here
        for seed in scale.seeds
    ]
    return [make_plan(None, _personal(p[ROW]) | {**scale.overrides}, p) for p in points]


def _personal(name: str) -> dict[str, Any]:
    """Personal models, made after the last round, of algorithms whose clients have none yet."""
    kind = algorithms.get(name)
    shared = kind.shared_model and not kind.personal_models
    return {"evaluation.personal": "interpolate"} if shared else {}


def those_here(plans: Sequence[Plan]) -> tuple[list[Plan], list[str]]:
    """The runs whose data is on this machine, and a sentence for each data set that is not."""
    sources = {plan.config.data.source: plan.config.data.path for plan in plans}
    gone = {
        name: f"{name} is not here, so it is left out: {NATURAL[name].dataset.missing()}"
        for name, path in sources.items()
        if name in NATURAL and find(NATURAL[name].dataset, path) is None
    }
    kept = [plan for plan in plans if plan.config.data.source not in gone]
    if plans and not kept:
        raise UserError(
            f"none of {', '.join(gone)} is here; FEDKF_DATA or --data-dir says where they are, and "
            "`fedkf data list` what they are"
        )
    return kept, list(gone.values())


def tables(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """Algorithms and readouts down; AMP, WLP, what is gained over FedAvg, and time across."""
    columns: list[Column] = []
    cells: dict[str, dict[int, Cell]] = {row: {} for row in _rows(groups)}
    for config, members in by_config(groups).items():
        start = len(columns)
        columns += _columns(config, _measured(members))
        for group in members:
            base = next((g for g in members if g.point[ROW] == BASELINE), None)
            for readout in _readouts(group):
                found = _cells(group, base, readout, columns[start:])
                own = cells[_row(group, readout)]
                own |= {start + k: cell for k, cell in enumerate(found)}
    rows = {row: [own.get(k, Cell()) for k in range(len(columns))] for row, own in cells.items()}
    rows = {row: found for row, found in rows.items() if any(cell.values for cell in found)}
    columns, rows = _with_ranks(columns, rows)
    return [ResultTable("Natural federations", "solution", columns, rows, _notes(scale))]


def _measured(members: Sequence[Group]) -> str:
    """What of each site AMP and WLP are over."""
    runs = [run for group in members for run in group.runs]
    return SITE_METRICS[judgement_of(runs[0].config).metric].label if runs else ""


def _columns(config: str, measured: str) -> list[Column]:
    place = f"{config}, {measured}" if measured else config
    amp, wlp = (metric_column(place, name, ()) for name in ("amp", "wlp"))
    gain = replace(amp, name=f"AMP less {algorithm_label(BASELINE)}'s", ranked=False)
    return [amp, wlp, gain, Column(place, "time", digits=0, ranked=False, unit="s")]


def _readouts(group: Group) -> list[str]:
    """Those that differ: who trains alone has one model."""
    if group.point[ROW] == ALONE:
        return [READOUTS[0]]
    personal = any(run.final(PERSONAL) for run in group.runs)
    return [*READOUTS, *([PERSONAL] if personal else [])]


def _row(group: Group, readout: str) -> str:
    name = str(group.point[ROW])
    return algorithm_label(name) if name == ALONE else solution(name, readout)


def _rows(groups: Sequence[Group]) -> list[str]:
    """All rows: an algorithm's readouts next to each other."""
    return list(dict.fromkeys(_row(group, r) for group in groups for r in (*READOUTS, PERSONAL)))


def _cells(group: Group, base: Group | None, readout: str, columns: Sequence[Column]) -> list[Cell]:
    amp, wlp = (Cell(group.values(readout, name)) for name in ("amp", "wlp"))
    gain = Cell()
    if base is not None and (found := gains(base, group, readout)):
        gain = Cell(tuple(found), text=shown(over_seeds(found), columns[2]))
    return [amp, wlp, gain, Cell(tuple(seconds(run) for run in group.runs))]


def gains(base: Group, group: Group, readout: str) -> list[float]:
    """AMP less the baseline's under the same readout, pair by pair.

    A personal model is held against the baseline's OCA, the shared model that it is made from.
    """
    theirs = READOUTS[1] if readout == PERSONAL else readout
    if group is base and theirs == readout:
        return []
    found = [(one.final(theirs), two.final(readout)) for one, two in pairs(base, group)]
    known = [(one["amp"], two["amp"]) for one, two in found if one and two]
    return [after - before for before, after in known if after is not None and before is not None]


def _with_ranks(
    columns: Sequence[Column], rows: dict[str, list[Cell]]
) -> tuple[list[Column], dict[str, list[Cell]]]:
    """A first column: the mean place by AMP over the federations that a row is in."""
    places: dict[str, list[int]] = {row: [] for row in rows}
    for k, column in enumerate(columns):
        if column.name == METRICS["amp"].label:
            means = {row: mean for row, c in rows.items() if (mean := c[k].mean) is not None}
            for place, row in enumerate(sorted(means, key=lambda r: -means[r]), 1):
                places[row].append(place)
    first = Column(OVERALL, "mean place by AMP", digits=1, lower=True)
    ranked = {
        row: [Cell((fmean(places[row]),) if places[row] else ()), *found]
        for row, found in rows.items()
    }
    return [first, *columns], ranked


def _notes(scale: Scale) -> list[str]:
    return [
        f"{scale.about}. {AS_THEY_RAN}",
        f"AMP less FedAvg's: paired by seed, under the same readout (personal models less FedAvg's "
        f"OCA), with a 95 % interval (Student's t) from three seeds on. {STAR}: it leaves out 0; "
        f"one without: {CHANCE}.",
    ]
