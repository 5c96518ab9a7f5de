"""The best setting of each algorithm among finished runs, over their seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkf.core.errors import UserError, nearest
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY, over
from fedkf.runs.collect import PERSONAL, READOUTS, Group
from fedkf.runs.suite import SEEDS, Finished, comparable, records

AGREED = ("data.mean", "data.std")
"""What clients agree on follows from the data and their division, so that it differs by seed."""


@dataclass(frozen=True)
class Setting:
    """Runs of one algorithm that differ in their seeds only, and how they fared."""

    algorithm: str
    data: Mapping[str, Any]
    """What of the data it was run on differs between the runs, and what they are judged by."""
    keys: Mapping[str, Any]
    """What else differs between this algorithm's runs."""
    group: Group
    values: Sequence[float]
    tried: int = 1
    """How many settings of the algorithm were tried on this data."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    def as_json(self, readout: str, metric: str) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "data": dict(self.data),
            "setting": dict(self.keys),
            "tried": self.tried,
            "readout": readout,
            "metric": metric,
            "mean": self.mean,
            "values": list(self.values),
            "runs": [str(run.path) for run in self.group.runs],
        }


def best(folders: Iterable[Path], readout: str = "oca", metric: str = "amp") -> list[Setting]:
    """For each data and algorithm the setting with the best mean, the best algorithm first."""
    if metric not in METRICS:
        raise UserError(f"no metric {metric!r}; {nearest(metric, METRICS)}")
    known = (*READOUTS, PERSONAL)
    if readout not in known:
        raise UserError(f"no readout {readout!r}; {nearest(readout, known)}")
    folders = list(folders)
    found = settings(records(folders), readout, metric)
    if not found:
        places = ", ".join(map(str, folders))
        raise UserError(f"{places}: no finished run has {metric} of {readout}")
    chosen: dict[tuple[str, str], list[Setting]] = {}
    for setting in found:
        chosen.setdefault((str(setting.data), setting.algorithm), []).append(setting)
    winners = [first(same, metric, len(same)) for same in chosen.values()]
    order = list(dict.fromkeys(str(setting.data) for setting in found))
    return sorted(winners, key=lambda s: (order.index(str(s.data)), -sign(s, metric) * s.mean))


def first(same: Sequence[Setting], metric: str, tried: int) -> Setting:
    """The best of settings of one algorithm; of equals the one that was found first."""
    winner = max(same, key=lambda setting: sign(setting, metric) * setting.mean)
    return Setting(**{**vars(winner), "tried": tried})


def sign(setting: Setting, metric: str) -> int:
    """1 where higher is better."""
    return 1 if over(setting.group.judged_by)[metric].higher_is_better else -1


def settings(runs: Sequence[Finished], readout: str, metric: str) -> list[Setting]:
    """The runs by what they were run with; two of the same seeds count once."""
    flat = [(run, keys_of(run)) for run in runs]
    own = {run.config.algorithm.name for run in runs}
    data = varying([keys for _, keys in flat], "data.")
    rest = {
        name: varying([k for run, k in flat if run.config.algorithm.name == name]) for name in own
    }
    made: dict[str, tuple[Finished, dict[str, Any], dict[str, Any], dict[Any, Finished]]] = {}
    for run, keys in flat:
        name = run.config.algorithm.name
        about = {key: keys.get(key) for key in data}
        if run.summary.metric != ACCURACY:
            about["evaluation.metric"] = run.summary.metric
        setting = {key: keys.get(key) for key in rest[name] if key not in about}
        place = made.setdefault(str((name, about, setting)), (run, about, setting, {}))
        place[3].setdefault((run.config.data.seed, run.config.federation.seed), run)
    found = []
    for run, about, setting, seeds in made.values():
        group = Group({}, list(seeds.values()))
        if values := group.values(readout, metric):
            found.append(Setting(run.config.algorithm.name, about, setting, group, values))
    return found


def keys_of(run: Finished) -> dict[str, Any]:
    """What two runs of one setting share: all that counts but seeds and what follows from them."""
    left = {*SEEDS, "algorithm.name", *(AGREED if run.config.data.scaling == "federated" else ())}
    return {key: value for key, value in comparable(run.config).items() if key not in left}


def varying(flat: Sequence[Mapping[str, Any]], prefix: str = "") -> list[str]:
    """The keys that do not have one value in all runs."""
    keys = dict.fromkeys(key for keys in flat for key in keys if key.startswith(prefix))
    return [key for key in keys if len({str(keys.get(key)) for keys in flat}) > 1]
