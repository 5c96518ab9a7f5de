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
    """What the numbers of a column tell; their texts, which may be millions, are not kept."""

    kinds: frozenset[str | None]
    """As `kinds_of` calls them."""
    marks: frozenset[str]
    """Of commas and points those that numbers hold."""
    unsure: str | None
    """A number that may be of either way, if there is one."""
    numeric: bool
    """Whether there are at least as many numbers as words."""

    @staticmethod
    def of(cells: Cells) -> Column:
        kinds, places = kinds_of(cells)
        counts = np.bincount(places, minlength=len(kinds)).tolist()
        numbers = words = 0
        for (text, kind), count in zip(kinds.items(), counts, strict=True):
            if kind:
                numbers += count
            elif text not in MISSING and any(c.isalpha() for c in text):
                words += count
        written = [text for text, kind in kinds.items() if kind]
        marks = frozenset(mark for mark in ",." if any(mark in text for text in written))
        unsure = next(
            (t for t, kind in kinds.items() if kind and kind.startswith("possible")), None
        )
        return Column(frozenset(kinds.values()), marks, unsure, words <= numbers)

    def ways(self, kind: str) -> list[Way]:
        """The ways in which numbers of a kind are written."""
        return [way for way in WAYS if f"{kind}_{way.name}" in self.kinds]

    @property
    def own(self) -> list[Way]:
        """The ways that the column tells by itself."""
        return self.ways("decimals") or self.ways("grouped")

    @property
    def mixed(self) -> bool:
        """Whether nobody can know: numbers of both ways."""
        return len(self.own) > 1


def kinds_of(cells: Cells) -> tuple[dict[str, str | None], NDArray[np.intp]]:
    """The texts of a column, each once, with the kind of number that it is, and their places."""
    values, places = np.unique(cells, return_inverse=True)
    matches = ((text, NUMBER.fullmatch(text)) for text in values.tolist())
    return {text: match and match.lastgroup for text, match in matches}, places


def written(cells: Cells, way: Way) -> Cells:
    """The cells of a column with numbers of a way as programs write them."""
    kinds, places = kinds_of(cells)
    ours = {f"decimals_{way.name}", f"grouped_{way.name}", *(f"possible_{w.name}" for w in WAYS)}
    texts = [way.plain(text) if kind in ours else text for text, kind in kinds.items()]
    result: Cells = np.array(texts, dtype=np.str_)[places]
    return result


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
        if column.marks <= ({"."} if way is POINTS else set()):
            continue
        changed[name] = written(cells[name], way)
        if way is COMMAS and "," in column.marks:
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
    unsure = {n: c.unsure for n, c in columns.items() if c.unsure and not c.own}
    for kind in ("decimals", "grouped", "possible"):
        first = {w: name for name, column in [*columns.items()][::-1] for w in column.ways(kind)}
        if len(first) == 1:
            return next(iter(first))
        if first and unsure and kind != "grouped":
            name, value = next(iter(unsure.items()))
            raise wrong(
                f"the column {shown(first[COMMAS])} has numbers with a decimal comma and "
                f"{shown(first[POINTS])} with a decimal point, so that nobody can know what "
                f"{value} in {shown(name)} is; write all numbers in one way, or name a column "
                "that holds none in data.ignore"
            )
    return POINTS
