"""Decimals: commas and points in the numbers of a file, as countries write them.

A comma may begin decimals or divide thousands, and so may a point. Most columns tell which it is;
for those that do not, the others of the file do: 1.566 may be either, but beside 3,12 it is 1566.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkf.core.limits import shown
from fedkf.data.cells import Cells, Unused, Wrong
from fedkf.data.files import some
from fedkf.data.reading import MISSING_VALUES, SPELLINGS


@dataclass(frozen=True)
class Way:
    """A country's way of writing numbers."""

    name: str
    decimal: str
    thousands: str

    def kinds(self) -> Iterator[str]:
        """Patterns of numbers: what may be thousands of the other way, too, and what may not."""
        d, t, start = re.escape(self.decimal), re.escape(self.thousands), r"[+-]?[1-9]\d{0,2}"
        decimals = rf"[+-]?(?:\d*|\d{{1,3}}(?:{t}\d{{3}})+){d}\d+(?:[eE][+-]?\d+)?"
        yield rf"(?P<possible_{self.name}>{start}{d}\d{{3}})"  # 1.566 or 1,566
        yield rf"(?P<decimals_{self.name}>{decimals})"  # 3,12 or 1.566,5
        yield rf"(?P<grouped_{self.name}>{start}(?:{t}\d{{3}}){{2,}})"  # 12.345.678

    def plain(self, value: str) -> str:
        """A number as it is written in programs."""
        return value.replace(self.thousands, "").replace(self.decimal, ".")


COMMAS, POINTS = WAYS = Way("comma", ",", "."), Way("point", ".", ",")
WHOLE = r"(?P<whole>[+-]?\d+(?:[eE][+-]?\d+)?)"
NUMBER = re.compile("|".join([WHOLE, *(kind for way in WAYS for kind in way.kinds())]))
"""Any number; the name of the group that is matched last says of which kind it is."""
MISSING = {*MISSING_VALUES, *SPELLINGS}


@dataclass(frozen=True)
class Column:
    """The texts of a column, each once, with the kind of number that it is, and their places."""

    kinds: Mapping[str, str | None]
    places: NDArray[np.intp]
    numeric: bool
    """Whether there are at least as many numbers as words."""

    @staticmethod
    def of(cells: Cells) -> Column:
        values, places, counts = np.unique(cells, return_inverse=True, return_counts=True)
        matches = {text: NUMBER.fullmatch(text) for text in values.tolist()}
        kinds = {text: match and match.lastgroup for text, match in matches.items()}
        numbers = words = 0
        for (text, kind), count in zip(kinds.items(), counts.tolist(), strict=True):
            if kind:
                numbers += count
            elif text not in MISSING and any(c.isalpha() for c in text):
                words += count
        return Column(kinds, places, words <= numbers)

    def ways(self, kind: str) -> list[Way]:
        """The ways in which numbers of a kind are written."""
        found = set(self.kinds.values())
        return [way for way in WAYS if f"{kind}_{way.name}" in found]

    @property
    def own(self) -> list[Way]:
        """The ways that the column tells by itself."""
        return self.ways("decimals") or self.ways("grouped")

    @property
    def mixed(self) -> bool:
        """Whether nobody can know: numbers of both ways."""
        return len(self.own) > 1

    def written(self, way: Way) -> dict[str, str]:
        """The numbers of a way with commas or points, as programs write them."""
        ours = {
            f"decimals_{way.name}",
            f"grouped_{way.name}",
            *(f"possible_{w.name}" for w in WAYS),
        }
        return {text: way.plain(text) for text, kind in self.kinds.items() if kind in ours}


def with_points(
    cells: Mapping[str, Cells], unused: Unused, wrong: Wrong
) -> tuple[dict[str, Cells], list[str]]:
    """The columns with their numbers as programs write them, and what a person should know.

    Columns of texts and those that are `unused` stay as they are, and so does one that has decimals
    of both ways.
    """
    columns = {name: Column.of(cells[name]) for name in cells if not unused(name)}
    columns = {n: column for n, column in columns.items() if column.numeric and not column.mixed}
    shared = shared_way(columns, wrong)
    changed = dict(cells)
    told: dict[str, list[str]] = {}
    for name, column in columns.items():
        way = next(iter(column.own), shared)
        new = column.written(way)
        if all(text == plain for text, plain in new.items()):
            continue
        changed[name] = np.array([new.get(t, t) for t in column.kinds], dtype=np.str_)[
            column.places
        ]
        if way is COMMAS and any("," in text for text in new):
            note = "numbers with a decimal comma are read as numbers"
        else:
            mark = "points" if way is COMMAS else "commas"
            note = f"{mark} between thousands are left out of numbers"
        told.setdefault(note, []).append(name)
    return changed, [f"{note}: {some(names)}" for note, names in told.items()]


def shared_way(columns: Mapping[str, Column], wrong: Wrong) -> Way:
    """How a file writes numbers: by its decimals, else by long thousands, else by what may be.

    It is asked for columns that do not tell it by themselves, and where there are any it must be
    told without contradiction.
    """
    unsure = {name: column for name, column in columns.items() if not column.own}
    unsure = {name: column for name, column in unsure.items() if column.ways("possible")}
    for kind in ("decimals", "grouped", "possible"):
        first = {w: name for name, column in [*columns.items()][::-1] for w in column.ways(kind)}
        if len(first) == 1:
            return next(iter(first))
        if first and unsure and kind != "grouped":
            name, column = next(iter(unsure.items()))
            value = next(text for text, k in column.kinds.items() if k and k.startswith("possible"))
            raise wrong(
                f"the column {shown(first[COMMAS])} has numbers with a decimal comma and "
                f"{shown(first[POINTS])} with a decimal point, so that nobody can know what "
                f"{value} in {shown(name)} is; write all numbers in one way, or name a column "
                "that holds none in data.ignore"
            )
    return POINTS
