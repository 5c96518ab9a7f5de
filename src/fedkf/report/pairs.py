"""Which runs are compared with which: those on the same data with the same seed, and no others."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fedkf.charts.labels import algorithm_label
from fedkf.metrics.sites import over
from fedkf.report.repeats import settings_of
from fedkf.report.runs import Run
from fedkf.runs.statistics import Difference, over_seeds, within_pair

BASELINE = "fedavg"
OWN = ("algorithm", "generator", "provenance", "output", "engine")
"""Parts of a configuration in which two algorithms differ by nature, or that change no result."""


@dataclass(frozen=True)
class Contest:
    """One setting against the baseline, over all data and seeds that both were run with."""

    pairs: Sequence[tuple[Run, Run]]
    """The baseline's run and the other's, each pair with a seed of its own."""
    label: str

    @property
    def base(self) -> Run:
        return self.pairs[0][0]

    @property
    def other(self) -> Run:
        return self.pairs[0][1]

    @property
    def base_label(self) -> str:
        one = len(self.pairs) == 1
        return self.base.label if one else algorithm_label(self.base.algorithm)

    def within(self, pairings: Collection[tuple[str, int] | None]) -> Contest:
        """The contest on some of the data and seeds only."""
        kept = [pair for pair in self.pairs if pair[1].pairing in pairings]
        return replace(self, pairs=kept)

    def readouts(self) -> list[str]:
        """Those that both have."""
        return [r for r in self.other.readouts if r in self.base.readouts]

    def values(self, readout: str, metric: str) -> list[tuple[float, float]]:
        """A metric under the baseline and under the other, pair by pair, where both have it."""
        found = []
        for base, other in self.pairs:
            before, after = base.numbers(readout), other.numbers(readout)
            if before is None or after is None:
                continue
            one, two = before[metric], after[metric]
            if one is not None and two is not None:
                found.append((one, two))
        return found

    def difference(self, readout: str, metric: str) -> Difference | None:
        """The mean over the pairs, with an interval where one can be had."""
        values = self.values(readout, metric)
        if not values:
            return None
        changes = [after - before for before, after in values]
        one, two = self.base.score(readout), self.other.score(readout)
        if len(self.pairs) > 1 or one is None or two is None:
            return over_seeds(changes)
        found = within_pair(over(one.metric)[metric], one, two, self.other.tested)
        return replace(found, mean=changes[0]) if found else over_seeds(changes)


def usable(runs: Sequence[Run]) -> list[Run]:
    """Runs of a shared model that have been evaluated."""
    return [run for run in runs if run.readouts and not run.alone]


def baseline(run: Run, runs: Sequence[Run]) -> Run | None:
    """The run that another is compared with, or None: FedAvg's, else that of the first algorithm.

    Of several on the same data with the same seed, one whose other settings are the run's, too.
    """
    shared = usable(runs)
    names = [other.algorithm for other in shared]
    if not names or run.pairing is None:
        return None
    name = BASELINE if BASELINE in names else names[0]
    candidates = [r for r in shared if r.algorithm == name and r.pairing == run.pairing]
    if run.algorithm != name:
        candidates.sort(key=lambda r: surroundings(r) != surroundings(run))  # a stable order
    chosen = candidates[0] if candidates else None
    same = chosen is None or chosen is run or settings_of(chosen) == settings_of(run)
    return None if same else chosen


def surroundings(run: Run) -> str:
    """What is set apart from the algorithm itself."""
    kept = {key: value for key, value in run.config.items() if key not in OWN}
    return json.dumps(kept, sort_keys=True, default=str)


def contests(runs: Sequence[Run]) -> list[Contest]:
    """Every setting that can be compared with a baseline; runs of the same seed count once."""
    groups: dict[tuple[str, str], dict[tuple[str, int], tuple[Run, Run]]] = {}
    for run in usable(runs):
        base = baseline(run, runs)
        if base is not None and run.pairing is not None:
            group = groups.setdefault((settings_of(run), settings_of(base)), {})
            group.setdefault(run.pairing, (base, run))
    pairs = [list(group.values()) for group in groups.values()]
    algorithms = [other.algorithm for ((_, other), *_) in pairs]
    made = []
    for members in pairs:
        base, other = members[0]
        alone = algorithms.count(other.algorithm) == 1 and other.algorithm != base.algorithm
        label = algorithm_label(other.algorithm) if alone and len(members) > 1 else other.label
        made.append(Contest(members, label))
    return made
