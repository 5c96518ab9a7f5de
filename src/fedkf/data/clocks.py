"""Clocks: columns of recordings that tell when something was measured, not what."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from fedkf.data.reading import Reading
from fedkf.data.tabular import Table

PLAIN = ("time", "timestamp", "date", "datetime")
"""Names of which nobody asks what they are."""
SECONDS = r"(?:[numµμ]|nano|micro|milli)?s(?:ec(?:ond)?s?)?"
UNIT = rf"(?:{SECONDS}|min(?:ute)?s?|h|hrs?|hours?|utc|unix|epoch)"
WHICH = r"(?:(?:unix|utc|epoch|elapsed|local)[ _.-]?)?"
WORD = r"(?:date[ _-]?time|time[ _-]?stamp|time|date|clock)"
CLOCK = re.compile(
    rf"{WHICH}{WORD}(?:[ _.-]*(?:{UNIT}|\({UNIT}\)|\[{UNIT}\]))?"
    rf"|t(?:[ _.-]{SECONDS}|[ _.-]*(?:\({UNIT}\)|\[{UNIT}\]))",
    re.IGNORECASE,
)
"""A word for when, perhaps with a unit: timestamp_ns, Time (s), t_sec. A t without one may be a
temperature, and t_min the lowest."""
LEAST, UNEVEN = 3, 0.05
"""Rows that can tell whether steps are even, and the share of a step that rounding may take."""


def is_clock(name: str) -> bool:
    """Whether a column is called as clocks are.

    >>> [is_clock(name) for name in ("timestamp_ns", "Time (s)", "t_sec", "t", "reaction_time")]
    [True, True, True, False, False]
    """
    return bool(CLOCK.fullmatch(name.strip()))


def steady(values: NDArray[np.float64]) -> bool:
    """Whether numbers only ever increase, and always by the same step, as those of a clock do."""
    if len(values) < LEAST:
        return False
    steps = np.diff(values)
    return bool(steps.min() > 0 and np.ptp(steps) <= UNEVEN * steps.mean())


def clock_notes(table: Table, channels: Sequence[str], reading: Reading) -> list[str]:
    """Columns that are no channels for their names, where these are not the plainest ones."""
    if reading.columns is not None:
        return []
    used = {*channels, *reading.ignore, *reading.targets, *reading.groups}
    used |= {reading.site or "", reading.split_by or ""}
    return [
        f"column {name} tells when, so that it is no channel; data.columns names channels"
        for name in table.names
        if name not in used and is_clock(name) and name.lower() not in PLAIN
    ]


def steady_notes(found: Sequence[Set[str]], channels: Sequence[str]) -> list[str]:
    """Channels that rise steadily in every recording, whatever they are called."""
    return [
        f"column {name}: rises by the same step from row to row in every recording, as clocks do, "
        "and it is a channel; data.ignore leaves it out"
        for name in channels
        if all(name in recording for recording in found)
    ]
