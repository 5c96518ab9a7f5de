"""The records of results/, gathered by what was run: a folder holds the runs of a suite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fedkf.charts.labels import algorithm_label
from fedkf.paper import pace, sites
from fedkf.paper.grid import ROW, VARIANT, label, row_key
from fedkf.runs import suite
from fedkf.runs.collect import Group, gather
from fedkf.runs.suite import Finished

ROOT = Path(__file__).parents[2]
STEPS, APART, PACES, REPEATED = "steps.json", "apart.json", "paces.json", "again.json"
LETTERS = "letters"
SITES = "sites"
"""The one suite that is no file: `fedkf reproduce sites --scale paper`."""
UNCHANGED = "as it is"
"""What a run is called whose name tells no change."""
HOUR = 3600


@dataclass(frozen=True)
class Setting:
    """The runs of one method under one setting; they differ in their seeds only."""

    method: str
    """As people call it."""
    where: str
    """The rest of its place in the grid: `α = 0.1`."""
    group: Group

    @property
    def algorithm(self) -> str:
        """Its key in configurations."""
        runs = self.group.runs
        return runs[0].config.algorithm.name if runs else str(self.group.point.get(ROW, ""))

    @property
    def runs(self) -> Sequence[Finished]:
        return self.group.runs

    @property
    def alpha(self) -> float | None:
        value = self.group.point.get("data.alpha")
        return None if value is None else float(value)


@dataclass(frozen=True)
class Evidence:
    """What results/ holds, and the suites that say what it should hold."""

    results: Path = ROOT / "results"
    suites: Path = ROOT / "benchmarks" / "suites"

    def folders(self) -> list[str]:
        """The suites that have records or are planned."""
        planned = {SITES, *(file.stem for file in self.suites.glob("*.yaml"))}
        return sorted(planned | {path.name for path in self.results.iterdir() if path.is_dir()})

    def records(self, name: str) -> Mapping[str, Finished]:
        """The finished runs of a folder, by their names."""
        return read_records(self.results / name)

    def planned(self, name: str) -> Sequence[suite.Plan]:
        """The runs of the suite of that name; none where there is no suite."""
        return read_plans(self.suites / f"{name}.yaml")

    def settings(self, *names: str) -> list[Setting]:
        """Every setting of these suites, planned ones first; one without runs is there as well."""
        return [one for name in names for one in read_settings(self, name)]

    def steps(self) -> dict[str, float]:
        """What a step of each algorithm costs in steps of FedAvg, where it was measured."""
        costs: dict[str, float] = self.measured().get("steps", {})
        return costs

    def measured(self) -> dict[str, Any]:
        """What `step.py --all` left: the costs, and the load under which they were measured."""
        file = self.results / "rivals" / STEPS
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def pace(self, kind: str) -> pace.Pace | None:
        """What a round of each method takes on data of a kind.

        On letters as `fedkf reproduce time-to-target` measured it, elsewhere as `paces.py`.
        """
        if kind == LETTERS:
            return pace.read(self.results / LETTERS)
        found = self.paces().get(kind)
        if found is None:
            return None
        seconds = {(kind, name): float(value) for name, value in found["seconds"].items()}
        return pace.Pace(seconds, found["load"], found["workers"])

    def paces(self) -> dict[str, dict[str, Any]]:
        """What `paces.py` left, by kind of data."""
        file = self.results / PACES
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def seconds(self, kind: str) -> dict[str, float]:
        """Seconds of a round by algorithm, where they were measured."""
        timed = self.pace(kind)
        return {name: value for (_, name), value in timed.seconds.items()} if timed else {}

    def again(self) -> dict[str, dict[str, Any]]:
        """How records that were trained again came out, as `again.py` found."""
        file = self.results / REPEATED
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def apart(self) -> dict[str, dict[str, float | None]]:
        """How different clients are, by the title of their data, as `apart.py` measured it."""
        file = self.results / APART
        return dict(json.loads(file.read_text())) if file.exists() else {}


@cache
def read_records(folder: Path) -> Mapping[str, Finished]:
    found = suite.records([folder]) if folder.is_dir() else []
    return {",".join(run.path.relative_to(folder.absolute()).parts): run for run in found}


@cache
def read_plans(file: Path) -> Sequence[suite.Plan]:
    if file.stem == SITES:
        return sites.site_plans(sites.SCALES["paper"])
    return suite.read(file).plans if file.exists() else ()


@cache
def read_settings(evidence: Evidence, name: str) -> Sequence[Setting]:
    plans, found = evidence.planned(name), dict(evidence.records(name))
    groups = gather(plans, found)
    variants = any(VARIANT in plan.point for plan in plans)
    for plan in plans:
        found.pop(plan.name, None)
    others: dict[tuple[tuple[str, Any], ...], list[Finished]] = {}
    for run, record in found.items():
        point = point_of(run, record, variants)
        others.setdefault(tuple(point.items()), []).append(record)
    groups += [Group(dict(point), runs) for point, runs in others.items()]
    several = len({group.point.get("config") for group in groups}) > 1
    return [setting_of(group, several) for group in groups]


def parts_of(name: str) -> list[str]:
    """What a run's name says beside its seeds."""
    return [part for part in name.split(",") if not part.startswith(("seed=", "data-seed="))]


def point_of(name: str, record: Finished, variants: bool = False) -> dict[str, Any]:
    """The place in a grid that a run's name tells, for one that is in no suite.

    A word without a value is a variant where the others of its suite are, else the data.
    """
    point: dict[str, Any] = {}
    rest: list[str] = []
    for part in parts_of(name):
        if part == record.config.algorithm.name:
            point[ROW] = part
        elif part.startswith("alpha="):
            point["data.alpha"] = float(part.removeprefix("alpha="))
        elif "=" not in part and not rest and not variants:
            point.setdefault("config", part)
        else:
            rest.append(part if "=" in part else part.replace(".", " "))
    if rest or ROW not in point:
        point[VARIANT] = ", ".join(rest) or UNCHANGED
    return point


def setting_of(group: Group, several: bool) -> Setting:
    """A group with its names for people; what its data are called where there are several."""
    row = row_key(group.point)
    name = str(group.point.get(row, ""))
    if not name and group.runs:  # a suite of one algorithm does not name it in its grid
        row, name = ROW, group.runs[0].config.algorithm.name
    aside = (row,) if several else (row, "config")
    where = [label(k, v) for k, v in group.point.items() if k not in aside]
    return Setting(algorithm_label(name) if row == ROW else name, ", ".join(where), group)


def hours(runs: Sequence[Finished]) -> float:
    """What these runs took of one core."""
    return sum(run.summary.seconds["total"] for run in runs) / HOUR


def find(settings: Sequence[Setting], algorithm: str, alpha: float | None = None) -> Setting | None:
    """The setting of an algorithm, at one α where it is given, if it has any run."""
    for one in settings:
        if one.algorithm == algorithm and one.runs and alpha in (None, one.alpha):
            return one
    return None
