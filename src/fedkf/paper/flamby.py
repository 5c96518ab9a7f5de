"""FLamby's benchmark (du Terrail et al., 2022) of two federations, beside its published numbers.

The presets `heart-flamby` and `tcga-flamby` hold its protocol: a linear model, all sites in every
round, a hundred updates of each. `numbers/flamby.csv` holds what its authors published for each of
their seeds: the mean over sites, each counted once, and the worst site.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fedkf.core.objective import Survival
from fedkf.paper.analyses import by_config
from fedkf.paper.grid import ROW, solution
from fedkf.paper.published import Published, rows
from fedkf.paper.scales import Scale, installed, plans
from fedkf.paper.tables import Cell, Column, ResultTable
from fedkf.runs.collect import Group
from fedkf.runs.suite import Finished, Plan

if TYPE_CHECKING:
    from torch import Tensor

METHODS = ("fedavg", "fedprox", "scaffold", "fedadam", "fedyogi", "fedkf-", "fedkf", "fedkf+")
CONFIGS = ("heart-flamby", "tcga-flamby")
READOUT = "aca"
"""All sites take part in every round, so that the mean over the active ones is over all."""
SHOWN = {"mean": "mean over sites", "worst": "worst site"}

SCALES = {
    scale.name: scale
    for scale in (
        Scale("smoke", "one round", CONFIGS, {"federation.rounds": 1}, methods=METHODS),
        Scale("small", "FLamby's protocol", CONFIGS, methods=METHODS),
        Scale(
            "paper",
            "FLamby's protocol",
            CONFIGS,
            seeds=(0, 1, 2, 3, 4),
            methods=METHODS,
        ),
    )
}


class CoxOverAll(Survival):
    """Cox's loss as FLamby has it: summed over a batch's events, divided by all its patients."""

    name: ClassVar[str] = "fedkf.paper.flamby:CoxOverAll"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().loss(outputs, targets) * (targets[:, 1] > 0).to(outputs.dtype).mean()


def flamby_plans(scale: Scale) -> list[Plan]:
    """Every method on both federations."""
    here, _ = installed(scale.methods)
    return plans(scale, {ROW: here})


def tables(groups: Sequence[Group], scale: Scale) -> list[ResultTable]:
    """The mean over sites and the worst site, in brackets what FLamby published."""
    columns: list[Column] = []
    found: dict[str, list[Cell]] = {
        solution(str(group.point[ROW]), READOUT).partition(" (")[0]: [] for group in groups
    }
    for config, members in by_config(groups).items():
        columns += [Column(config, shown, 100, 1, unit="%") for shown in SHOWN.values()]
        columns.append(Column(config, "within theirs", ranked=False))
        by_name = {str(group.point[ROW]): group for group in members}
        for (name, group), cells in zip(by_name.items(), found.values(), strict=True):
            values = {key: measured(group, key) for key in SHOWN}
            theirs = {key: published(config, name, key) for key in SHOWN}
            cells += [Cell(values[key], claim(theirs[key])) for key in SHOWN]
            cells.append(Cell(text=within(values["mean"], theirs["mean"])))
    return [ResultTable("FLamby's protocol", "algorithm", columns, found, notes(scale))]


def measured(group: Group, key: str) -> tuple[float, ...]:
    """What our runs came to, one value for each seed."""
    return tuple(value for run in group.runs if (value := of_sites(run, key)) is not None)


def of_sites(run: Finished, key: str) -> float | None:
    """The mean over sites or the worst of them, after the last round."""
    last: Any = run.rounds[-1].readouts if run.rounds else None
    values = [a for a in last[READOUT].performance if a is not None] if last else []
    if not values:
        return None
    return min(values) if key == "worst" else statistics.fmean(values)


def published(config: str, algorithm: str, key: str) -> list[float]:
    """What FLamby's authors published, one value for each of their seeds."""
    data = config.removesuffix("-flamby")
    return [
        float(row[key])
        for row in rows("flamby")
        if (row["data"], row["algorithm"]) == (data, algorithm)
    ]


def claim(values: Sequence[float]) -> Published | None:
    return Published(statistics.fmean(values), statistics.stdev(values)) if values else None


def within(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Whether the mean of ours lies between the least and the largest of their seeds."""
    if not ours or not theirs:
        return "–"
    mean = statistics.fmean(ours)
    if min(theirs) <= mean <= max(theirs):
        return "yes"
    return "above" if mean > max(theirs) else "below"


def notes(scale: Scale) -> list[str]:
    return [
        f"{scale.about}; in brackets what FLamby's authors published, over five seeds of theirs. "
        "heart: accuracy, tcga: concordance index; sites count alike, whatever their size.",
        "Within theirs: whether the mean of ours lies between the least and the largest of their "
        "seeds.",
    ]
