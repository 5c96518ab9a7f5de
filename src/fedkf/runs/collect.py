"""What the runs of a suite found, gathered by their place in the grid, over all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedkf.runs.suite import SEEDS, Finished, Plan

READOUTS = ("aca", "oca")


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


def gather(plans: Sequence[Plan], finished: Mapping[str, Finished]) -> list[Group]:
    """The finished runs in groups, in the order of the plans; a group may be empty."""
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[Finished]]] = {}
    for plan in plans:
        point = {k: v for k, v in plan.point.items() if k not in SEEDS}
        key = tuple((k, str(v)) for k, v in point.items())
        _, runs = groups.setdefault(key, (point, []))
        if plan.name in finished:
            runs.append(finished[plan.name])
    return [Group(point, runs) for point, runs in groups.values()]
