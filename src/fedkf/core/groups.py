"""Groups: how well a model serves groups of people (or devices), across sites and within them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.shapes import Damage, finite, many, maybe, read_record, text, whole

FEWEST = 10
"""Test samples of a group below which nothing is told of it: it would be chance, or a person."""
FEWEST_RARE = 5
"""Test samples that are not of the commonest kind, below which a group or a site is compared with
no other."""
Interval = Sequence[float] | None
Judge = Callable[[NDArray[np.int64]], tuple[float | None, Interval]]
"""How well some test samples are served, by their numbers, and where that plausibly lies."""
Rare = Callable[[NDArray[np.int64]], int | None]
"""How many of some test samples are not of the commonest kind; None where that does not matter."""


@dataclass(frozen=True)
class Group:
    """A group's test samples and how well they are served; None where they are too few to tell."""

    name: str
    tested: int
    value: float | None = None
    interval: Interval = None
    rare: int | None = None
    """How many are not of the commonest class, or had an event; None where that does not matter, as
    for accuracy, and in older records."""

    @property
    def telling(self) -> bool:
        """Whether it has a value that does not hang on a few samples of the rarer kind."""
        return self.value is not None and (self.rare is None or self.rare >= FEWEST_RARE)

    @staticmethod
    def read(content: object) -> Group:
        found = read_record(
            Group,
            content,
            name=text,
            tested=whole,
            value=maybe(finite),
            interval=maybe(many(finite)),
            rare=maybe(whole),
        )
        if found.interval is not None and len(found.interval) != 2:
            raise Damage("must be two numbers", ("interval",))
        return found


@dataclass(frozen=True)
class SiteGroups:
    """The groups at one site, and how far apart the best and the worst served of them are."""

    name: str
    groups: Sequence[Group] = ()
    gap: float | None = None

    @staticmethod
    def read(content: object) -> SiteGroups:
        return read_record(
            SiteGroups, content, name=text, groups=many(Group.read), gap=maybe(finite)
        )


@dataclass(frozen=True)
class GroupScores:
    """How a model serves the groups of one column."""

    metric: str
    """What is told of each group, a name of SITE_METRICS."""
    groups: Sequence[Group] = ()
    """Over all sites."""
    gap: float | None = None
    """Between the largest and the smallest value; None where fewer than two can be told."""
    within: float | None = None
    """The mean of the sites' own gaps: what is left of it among people of the same site."""
    sites: Sequence[SiteGroups] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def read(content: object) -> GroupScores:
        return read_record(
            GroupScores,
            content,
            metric=text,
            groups=many(Group.read),
            gap=maybe(finite),
            within=maybe(finite),
            sites=many(SiteGroups.read),
        )


def group_scores(
    metric: str,
    judge: Judge,
    groups: NDArray[np.str_],
    sites: Sequence[tuple[str, range]],
    rare: Rare = lambda rows: None,
) -> GroupScores:
    """What `judge` says of each group's test samples, and of each group's within each site.

    >>> right = np.arange(40) % 2
    >>> sites = [("north", range(40))]
    >>> names = np.where(right, "a", "b")
    >>> judge = lambda rows: (float(right[rows].mean()), None)
    >>> scores = group_scores("accuracy", judge, names, sites)
    >>> [(group.name, group.value) for group in scores.groups], scores.gap, scores.within
    ([('a', 1.0), ('b', 0.0)], 1.0, 1.0)
    """
    overall = judged(judge, rare, groups, np.arange(len(groups)))
    within = []
    for name, rows in sites:
        own = judged(judge, rare, groups, np.array(rows, dtype=np.int64))
        within.append(SiteGroups(name, own, gap_of(own)))
    gaps = [site.gap for site in within if site.gap is not None]
    mean = sum(gaps) / len(gaps) if gaps else None
    return GroupScores(metric, overall, gap_of(overall), mean, within)


def judged(
    judge: Judge, rare: Rare, groups: NDArray[np.str_], rows: NDArray[np.int64]
) -> list[Group]:
    found = []
    for name in sorted(np.unique(groups[rows]).tolist(), key=order):
        own = rows[groups[rows] == name]
        value, interval = judge(own) if len(own) >= FEWEST else (None, None)
        found.append(Group(name, len(own), value, interval, rare(own)))
    return found


def order(name: str) -> tuple[float, bool, str]:
    """Bands of numbers from the lowest to the highest, then texts by letters.

    >>> sorted(["unknown", "100 and over", "30 to under 100", "under 30"], key=order)
    ['under 30', '30 to under 100', '100 and over', 'unknown']
    """
    found = re.match(r"(under )?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", name)
    return (float(found[2]), found[1] is None, name) if found else (math.inf, True, name)


def gap_of(groups: Sequence[Group]) -> float | None:
    """The largest value less the smallest, where two can be told at least."""
    known = [group.value for group in groups if group.value is not None and group.telling]
    return max(known) - min(known) if len(known) > 1 else None
