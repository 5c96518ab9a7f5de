"""What the runs of a suite found, gathered by their place in the grid, over all seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedkf.metrics.sites import ACCURACY, over
from fedkf.runs.statistics import Difference, over_seeds, paired, within_pair
from fedkf.runs.suite import SEEDS, Finished, Plan

READOUTS = ("aca", "oca")
PERSONAL = "personal"
"""The readout that only some runs have: each client under a model of its own."""

WEIGHTY = {
    "federation.rounds": "rounds",
    "model.name": "model",
    "federation.fraction": "fraction of clients",
}
"""Settings beside the algorithm that alone can make a difference, and what they are called."""
GIVEN = "python"
"""What a record calls any model that was given to `fedkf.run` as a function."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds only."""

    point: Mapping[str, Any]
    runs: Sequence[Finished]

    def values(self, readout: str, metric: str) -> tuple[float, ...]:
        """A metric after the last round, one value for each seed."""
        finals = (run.final(readout) for run in self.runs)
        found = (numbers[metric] for numbers in finals if numbers is not None)
        return tuple(value for value in found if value is not None)

    @property
    def judged_by(self) -> str:
        """What of the clients its numbers are over."""
        return self.runs[0].summary.metric if self.runs else ACCURACY


def readouts_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """The readouts that a table of these runs has."""
    personal = any(run.final(PERSONAL) for group in groups for run in group.runs)
    return (*READOUTS, PERSONAL) if personal else READOUTS


def gather(plans: Sequence[Plan], finished: Mapping[str, Finished]) -> list[Group]:
    """The finished runs in groups, in the order of the plans; a group may be empty.

    Two runs of one group with the same seeds are the same run, and count once.
    """
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[Finished]]] = {}
    for plan in plans:
        point = {k: v for k, v in plan.point.items() if k not in SEEDS}
        key = tuple((k, str(v)) for k, v in point.items())
        _, runs = groups.setdefault(key, (point, []))
        run = finished.get(plan.name)
        if run is not None and seeds(run) not in map(seeds, runs):
            runs.append(run)
    return [Group(point, runs) for point, runs in groups.values()]


def seeds(run: Finished) -> tuple[int, int]:
    return run.config.data.seed, run.config.federation.seed


def pairs(base: Group, other: Group) -> list[tuple[Finished, Finished]]:
    """The runs of two groups that had the same data and seed."""
    return paired(*({run.pairing: run for run in group.runs} for group in (base, other)))


def differences(base: Group, other: Group, readout: str, metric: str) -> list[float]:
    """By how much a metric is larger than under the baseline, pair by pair."""
    found = []
    for one, two in pairs(base, other):
        before, after = one.final(readout), two.final(readout)
        if before is not None and after is not None:
            start, end = before[metric], after[metric]
            if start is not None and end is not None:
                found.append(end - start)
    return found


def difference(base: Group, other: Group, readout: str, metric: str) -> Difference | None:
    """The mean over the pairs; None where there are none, with an interval where one can be had."""
    found = differences(base, other, readout, metric)
    if not found:
        return None
    if len(matched := pairs(base, other)) == 1:
        last = [run.rounds[-1].readouts or {} if run.rounds else {} for run in matched[0]]
        one, two = (scores.get(readout) for scores in last)
        if one is not None and two is not None:
            about = within_pair(over(one.metric)[metric], one, two, matched[0][1].tested.get)
            return replace(about, mean=found[0]) if about else over_seeds(found)
    return over_seeds(found)


def set_apart(pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """In what else the configurations of a baseline's runs and of others differ, in words.

    >>> set_apart([({"model": {"name": "mlp"}}, {"model": {"name": "linear"}})])
    ["model linear, the baseline's mlp"]
    """
    found, matched = [], list(pairs)
    for key, what in WEIGHTY.items():
        told = [(setting(one, key), setting(two, key)) for one, two in matched]
        other = [(one, two) for one, two in told if one != two and None not in (one, two)]
        if other:
            one, two = other[0]
            found.append(f"{what} {two}, the baseline's {one}")
        if key == "model.name" and (GIVEN, GIVEN) in told:
            found.append("models given in Python, which are not known to be the same")
    return found


def setting(config: Mapping[str, Any], key: str) -> Any:
    """What a record says under a section's key; None where it says nothing."""
    section, name = key.split(".")
    about = config.get(section)
    return about.get(name) if isinstance(about, Mapping) else None
