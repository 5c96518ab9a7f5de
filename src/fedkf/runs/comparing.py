"""`fedkf.compare` and `fedkf.sweep`: runs set against each other, from Python."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError, UserError, nearest
from fedkf.core.records import Round, Summary
from fedkf.metrics import METRICS, PAPER
from fedkf.metrics.sites import over
from fedkf.runs.collect import PERSONAL, Group, difference, gather, pairs, set_apart
from fedkf.runs.result import Result
from fedkf.runs.statistics import words
from fedkf.runs.stopping import Patience
from fedkf.runs.store import RunFolder
from fedkf.runs.suite import SEEDS, Finished, comparable, suite_of
from fedkf.runs.sweep import sweep as run_all

Given = Result | str | Path
BASELINE = "fedavg"
DIVISION = ("data.path", "data.mean", "data.std", "data.target_mean", "data.target_std")
"""Keys in which runs of one name may differ where `data.seed` does.

Divisions of one's own lie in a file each, and training samples agree on another scale in each.
"""
ROUNDING = ("engine.threads", "engine.device")
"""Keys that results depend on in their last digits."""
ENDING = ("federation.evaluate_every", "federation.patience")
"""Keys that no result depends on unless patience ended the run."""
PERSONALLY = ("evaluation.personal", "evaluation.personal_epochs")
"""Keys that only personal models depend on."""


@dataclass(frozen=True)
class InHand(Finished):
    """A result that may have no files any more."""

    result: Result

    @cached_property
    def summary(self) -> Summary:
        return Summary.read(self.result.summary)

    @cached_property
    def rounds(self) -> list[Round]:
        return self.result.rounds

    @cached_property
    def pairing(self) -> tuple[str, int]:
        return f"{self.result.digest}{self.by}", self.result.config.federation.seed

    @cached_property
    def tested(self) -> dict[int, int]:
        clients = self.result.partition["clients"]
        return {k: int(client["test"]) for k, client in enumerate(clients) if client["test"]}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Settings against a baseline: `print` it for a table; `rows` has the numbers.

    >>> Comparison("fedavg", []).baseline
    'fedavg'
    """

    baseline: str
    rows: list[dict[str, Any]]
    """One for each setting, readout and metric: its mean over seeds, by how much that is above the
    baseline's on the same data and seeds, the interval of that (None if it cannot be had), and
    `words` that say what it is worth."""

    def frame(self) -> Any:
        """The rows as a table of pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError("a table needs pandas: pip install 'fedkf[frame]'") from None
        return pd.DataFrame(self.rows)

    def _table(self) -> list[list[str]]:
        head = ["", "readout", "metric", "mean", f"against {self.baseline}"]
        body = [
            [r["name"], r["readout"].upper(), METRICS[r["metric"]].label, r["shown"], r["words"]]
            for r in self.rows
        ]
        return [head, *body]

    def __repr__(self) -> str:
        table = self._table()
        widths = [max(len(row[k]) for row in table) for k in range(4)]
        lines = ("  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in table)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in self._table())
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def compare(
    runs: Mapping[str, Given | Sequence[Given]] | Sequence[Given],
    baseline: str | None = None,
    metrics: Sequence[str] = PAPER,
) -> Comparison:
    """Runs against a baseline, paired by data and seed, with intervals.

    `runs` are results or run folders: several of one algorithm are its seeds; a mapping gives
    settings names of their own (`{"mild": [run, …], "strong": [run, …]}`). Divisions in files of
    their own are seeds, too, where each has its `data.seed`. The baseline is FedAvg where it is
    among the runs, else the first. Runs on other data or seeds, or judged by another
    `evaluation.metric`, are never set against each other; where they differ in rounds, model or
    fraction of clients, the words say so. From three seeds on the interval is
    Student's t, for one seed a bootstrap over clients.

    >>> import fedkf
    >>> common = dict(config="digits", rounds=1, workers=0)
    >>> runs = [fedkf.run(algorithm=name, **common) for name in ("fedavg", "fedprox")]
    >>> fedkf.compare(runs, metrics=["amp"]).rows[-1]["name"]
    'fedprox'
    """
    for name in metrics:
        if name not in METRICS:
            raise UserError(f"no metric {name!r}; {nearest(name, METRICS)}")
    groups = grouped(runs)
    if not groups:
        raise UserError("runs is empty: there is nothing to compare")
    chosen = baseline or (BASELINE if BASELINE in groups else next(iter(groups)))
    if chosen not in groups:
        raise UserError(f"baseline is {chosen!r}; {nearest(chosen, groups)}")
    rows = [
        row
        for name, group in groups.items()
        for readout in dict.fromkeys(name for run in group.runs for name in run.summary.readouts)
        for metric in metrics
        if (row := row_of(name, readout, metric, groups[chosen], group)) is not None
    ]
    return Comparison(chosen, rows)


def row_of(
    name: str, readout: str, metric: str, base: Group, group: Group
) -> dict[str, Any] | None:
    """A line of a comparison; None where nothing was measured."""
    values = group.values(readout, metric)
    if not values:
        return None
    about, mean = over(group.judged_by)[metric], statistics.fmean(values)
    spread = f" ± {about.show(statistics.stdev(values))}" if len(values) > 1 else ""
    found = None if group is base else difference(base, group, readout, metric)
    notes: list[str] = []
    if found is not None:
        counts = found.seeds, len(values), len(base.values(readout, metric))
        notes = caveats(base, group, counts)
    told = "" if group is base else unpaired(base, group, readout)
    return {
        "name": name,
        "readout": readout,
        "metric": metric,
        "mean": mean,
        "seeds": len(values),
        "difference": found.mean if found else None,
        "low": found.interval[0] if found and found.interval else None,
        "high": found.interval[1] if found and found.interval else None,
        "shown": about.show(mean) + spread,
        "words": "; ".join([words(found, about), *notes]) if found else told,
    }


def unpaired(base: Group, group: Group, readout: str) -> str:
    """Why a group has no difference from the baseline."""
    if base.judged_by != group.judged_by:
        return f"judged by {group.judged_by}, the baseline by {base.judged_by}"
    matched = pairs(base, group)
    if not matched:
        return "no run on the same data with the same seed"
    if any(one.final(readout) is not None for one, _ in matched):
        return "not measured by both on the same data with the same seed"
    lacks = "personal models" if readout == PERSONAL else f"readout {readout.upper()}"
    return f"the baseline has no {lacks}"


def caveats(base: Group, group: Group, seeds: tuple[int, int, int]) -> list[str]:
    """What a difference is more than that of two algorithms, and what its means are over.

    `seeds` are those of the pairs, of the group's mean and of the baseline's.
    """
    matched = [tuple(run.config.model_dump() for run in pair) for pair in pairs(base, group)]
    found = set_apart((one, two) for one, two in matched)
    paired, own, theirs = seeds
    if (own, theirs) != (paired, paired):
        found.append(
            f"the mean is over {seeds_told(own)}, the baseline's over {seeds_told(theirs)}"
        )
    return found


def seeds_told(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def grouped(runs: Mapping[str, Given | Sequence[Given]] | Sequence[Given]) -> dict[str, Group]:
    """The runs by what they are called; the same data and seed counts once."""
    named: dict[str, list[Finished]] = {}
    if isinstance(runs, Mapping):
        for name, given in runs.items():
            several = [given] if isinstance(given, Result | str | Path) else given
            named[str(name)] = [finished(one) for one in several]
    elif isinstance(runs, str | Path):
        raise UserError(f"runs is {str(runs)!r}; it must be a list of results or run folders")
    else:
        for given in runs:
            run = finished(given)
            named.setdefault(run.summary.algorithm, []).append(run)
    groups = {}
    for name, found in named.items():
        if not found:
            continue
        if len({run.config.algorithm.model_dump_json() for run in found}) > 1:
            raise UserError(
                f"the runs of {name} differ in their hyperparameters; give them names: "
                'compare({"mild": [run, …], "strong": [run, …]})'
            )
        if len({run.summary.metric for run in found}) > 1:
            raise UserError(
                f"the runs of {name} are judged by different metrics (evaluation.metric), so that "
                "they have no mean; give them names of their own"
            )
        check_alike(name, found)
        groups[name] = Group({"name": name}, once(name, found))
    return groups


def check_alike(name: str, runs: Sequence[Finished]) -> None:
    """Refuse runs that differ in more than their seeds: a mean over them would mean nothing."""
    ended = any(map(out_of_patience, runs))
    for (first, one), (run, two) in combinations([(r, setting(r, ended)) for r in runs], 2):
        same = run.pairing[0] == first.pairing[0]
        other_seed = run.config.data.seed != first.config.data.seed
        free = ("data.",) if same else DIVISION if other_seed else ()
        keys = [
            key
            for key in sorted(one.keys() & two.keys())
            if one[key] != two[key] and not key.startswith(free)
        ]
        elsewhere = not keys or "data.path" in keys
        if not same and not other_seed and elsewhere and set(keys) <= set(DIVISION):
            raise UserError(
                f"{first.path} and {run.path} are runs of {name} on other data with the same "
                "data.seed; give each division a data.seed of its own, or the runs names: "
                'compare({"one": [run, …], "other": [run, …]})'
            )
        if keys:
            raise UserError(
                f"{first.path} and {run.path} are runs of {name}, but differ in "
                f"{', '.join(keys)} and not in their seeds alone; give them names: "
                'compare({"short": [run, …], "long": [run, …]})'
            )


def setting(run: Finished, ended: bool) -> dict[str, Any]:
    """What was set that results depend on, but for seeds; `ended`: where patience ended a run."""
    free = {*SEEDS, *ROUNDING, "evaluation.metric"}  # what it was judged by, the summary says
    free |= set() if ended else {*ENDING}
    free |= {*PERSONALLY} if run.config.evaluation.personal == "none" else set()
    flat = comparable(run.config)
    flat["data.source"], _, flat["data.path"] = flat["data.source"].partition(" ")
    return {key: value for key, value in flat.items() if key not in free}


def out_of_patience(run: Finished) -> bool:
    """Whether `federation.patience` ended a run."""
    settings = run.config.federation
    early = run.summary.rounds < settings.rounds
    return early and Patience(settings.patience, run.rounds).exhausted


def once(name: str, runs: Sequence[Finished]) -> list[Finished]:
    """The runs, of which the same data and seed counts once; its results must be the same."""
    found: dict[tuple[str, int], Finished] = {}
    for run in runs:
        first = found.setdefault(run.pairing, run)
        if first.summary.readouts != run.summary.readouts:
            raise UserError(
                f"{first.path} and {run.path} are runs of {name} on the same data with the same "
                "seed, but have other results; give them names: "
                'compare({"one": [run, …], "other": [run, …]})'
            )
    return list(found.values())


def finished(given: Given) -> Finished:
    """A run that has ended, at hand or on disk."""
    if isinstance(given, Result):
        return InHand(given.folder, given.config, given)
    if not isinstance(given, str | Path):
        raise UserError(f"runs holds a {type(given).__name__}; it must hold results or run folders")
    folder = RunFolder(Path(given))
    config = folder.config()
    if config is None or not folder.finished():
        raise UserError(f"{given} holds no finished run")
    return Finished(folder.path, config)


def sweep(
    grid: Mapping[str, Sequence[Any]],
    base: str | Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    jobs: int | None = None,
) -> dict[str, Comparison]:
    """Every combination of the grid's values, as `fedkf sweep` runs them; what came of it.

    `grid` maps keys to lists (`{"algorithm.name": […], "data.alpha": […], "federation.seed": […]}`)
    and `base` is a preset's name, a file, or a dictionary of settings (with a preset under
    `config`). Runs that are finished in `out` are not repeated. There is a comparison for each
    combination of the other values, over the algorithms and their seeds.

    >>> import fedkf, tempfile
    >>> grid = {"algorithm.name": ["fedavg", "fedprox"], "federation.seed": [0]}
    >>> base = {"config": "digits", "federation.rounds": 1}
    >>> list(fedkf.sweep(grid, base, out=tempfile.mkdtemp(), jobs=1))
    ['all']
    """
    if not isinstance(grid, Mapping) or not grid:
        what = "empty" if isinstance(grid, Mapping) else f"a {type(grid).__name__}"
        raise UserError(
            f"grid is {what}; it maps keys to lists of values, such as data.alpha: [0.1]"
        )
    given = dict(base) if isinstance(base, Mapping) else base
    lists = {
        k: list(v) if isinstance(v, Iterable) and not isinstance(v, str) else v
        for k, v in grid.items()
    }
    suite = suite_of({"base": given, "grid": lists}, "sweep")
    done, failures = run_all(suite.plans, Path(out), jobs)
    if failures:
        raise FedkfError(f"{failures[0].plan.name} failed: {failures[0].reason}")
    tables: dict[str, dict[str, list[Given]]] = {}
    for group in gather(suite.plans, done):
        rest = {k: v for k, v in group.point.items() if k != "algorithm.name"}
        name = ", ".join(f"{k}={v}" for k, v in rest.items()) or "all"
        algorithm = str(group.point.get("algorithm.name", "run"))
        tables.setdefault(name, {})[algorithm] = [run.path for run in group.runs]
    return {name: compare(table) for name, table in tables.items()}
