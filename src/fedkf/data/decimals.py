"""Decimals: commas and points in the numbers of a file, as countries write them.

A comma may begin decimals or divide thousands, and so may a point. Which it is, a whole file tells:
1.566 alone may be either, but beside 3,12 it is 1566.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedkf.core.limits import shown
from fedkf.data.cells import Cells, Unused, Wrong
from fedkf.data.files import some


@dataclass(frozen=True)
class Way:
    """A country's way of writing numbers."""

    decimal: str
    thousands: str

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
        """Of numbers with decimals, of those with thousands only, of those with two groups."""
        d, t = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"[+-]?[1-9]\d{{0,2}}({t}\d{{3}})"
        return (
            re.compile(rf"[+-]?(\d*|\d{{1,3}}({t}\d{{3}})+){d}\d+([eE][+-]?\d+)?"),
            re.compile(f"{whole}+"),
            re.compile(f"{whole}{{2,}}"),
        )

    def number(self, value: str) -> bool:
        """Whether a text is a number that is written so, with decimals or thousands."""
        return self.decimals(value) or self.grouped(value)

    def decimals(self, value: str) -> bool:
        """Whether it has decimals, perhaps also thousands: 3,12 or 1.566,5."""
        return self.patterns[0].fullmatch(value) is not None

    def grouped(self, value: str) -> bool:
        """Whether it has thousands and no decimals: 1.566."""
        return self.patterns[1].fullmatch(value) is not None

    def long(self, value: str) -> bool:
        """Whether it has thousands and can be nothing else: 12.345.678."""
        return self.patterns[2].fullmatch(value) is not None

    def plain(self, value: str) -> str:
        """A number as it is written in programs."""
        return value.replace(self.thousands, "").replace(self.decimal, ".")


COMMAS, POINTS = Way(",", "."), Way(".", ",")
WHOLE = re.compile(r"[+-]?\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Column:
    """What speaks for each way in a column: a number that can be nothing else, or one that can."""

    certain: frozenset[Way]
    """The ways that decimals are written in."""
    grouped: frozenset[Way]
    """The ways that thousands are written in, with two groups or more: 12.345.678."""
    possible: frozenset[Way]
    """The ways of 1.566 and 1,566 with decimals, which may be thousands of the other way."""

    @staticmethod
    def of(cells: Cells) -> Column:
        values, counts = np.unique(cells, return_counts=True)
        texts = list(map(str, values))
        numeric = [bool(WHOLE.fullmatch(v)) or COMMAS.number(v) or POINTS.number(v) for v in texts]
        words = [not n and any(c.isalpha() for c in v) for v, n in zip(texts, numeric, strict=True)]
        if counts[words].sum() > counts[numeric].sum():  # a column of texts
            return Column(frozenset(), frozenset(), frozenset())
        pairs = ((COMMAS, POINTS), (POINTS, COMMAS))
        decimals = [(way, v, other) for way, other in pairs for v in texts if way.decimals(v)]
        return Column(
            frozenset(way for way, v, other in decimals if not other.grouped(v)),
            frozenset(way for way in (COMMAS, POINTS) if any(map(way.long, texts))),
            frozenset(way for way, v, other in decimals if other.grouped(v)),
        )

    @property
    def mixed(self) -> bool:
        """Whether nobody can know: decimals of both ways."""
        return len(self.certain) > 1


def with_points(
    cells: Mapping[str, Cells], unused: Unused, wrong: Wrong
) -> tuple[dict[str, Cells], list[str]]:
    """The columns with their numbers as programs write them, and what a person should know.

    Columns that are `unused` stay as they are, and so does one that has decimals of both ways.
    """
    found = {name: Column.of(column) for name, column in cells.items() if not unused(name)}
    found = {name: column for name, column in found.items() if not column.mixed}
    way = way_of(found, wrong)
    changed = dict(cells)
    decimals: list[str] = []
    thousands: list[str] = []
    for name, column in found.items():
        other = COMMAS if way is POINTS else POINTS
        if other in column.grouped:  # no number in this way
            continue
        values, places = np.unique(cells[name], return_inverse=True)
        texts = [str(value) for value in values]
        new = [way.plain(v) if way.number(v) else v for v in texts]
        if new == texts:
            continue
        changed[name] = np.array(new, dtype=np.str_)[places]
        with_decimals = way is COMMAS and any(map(way.decimals, texts))
        (decimals if with_decimals else thousands).append(name)
    notes = []
    if decimals:
        notes.append(f"numbers with a decimal comma are read as numbers: {some(decimals)}")
    if thousands:
        mark = "points" if way is COMMAS else "commas"
        notes.append(f"{mark} between thousands are left out of numbers: {some(thousands)}")
    return changed, notes


def way_of(columns: Mapping[str, Column], wrong: Wrong) -> Way:
    """How a file writes numbers: by its decimals, else by long thousands, else by what may be."""
    for kind in ("certain", "grouped", "possible"):
        first = {
            way: next((n for n, c in columns.items() if way in getattr(c, kind)), None)
            for way in (COMMAS, POINTS)
        }
        commas, points = first[COMMAS], first[POINTS]
        if commas is not None and points is not None and kind != "grouped":
            raise wrong(
                f"the column {shown(commas)} has numbers with a decimal comma and {shown(points)} "
                "with a decimal point, so that nobody can know what 1.566 and 1,566 are; write "
                "all numbers in one way, or name a column that holds none in data.ignore"
            )
        if (commas is None) != (points is None):
            return COMMAS if commas is not None else POINTS
    return POINTS
