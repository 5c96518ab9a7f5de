"""Decimals: commas and points in the numbers of files, as countries write them.

A comma may begin decimals or divide thousands, and so may a point. Most columns tell which it is;
for those that do not, the others of the file do, else the other files: 1.566 may be either, but
beside 3,12 it is 1566. `data.decimal` says it in their place. Sites, categories and whatever else
is a name take no part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkf.core.limits import shown
from fedkf.data.cells import Cells, Wrong
from fedkf.data.files import some
from fedkf.data.reading import OPEN, Reading


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
OUT = "write all numbers in one way, or set data.decimal to comma or point"


@dataclass(frozen=True)
class Column:
    """What the numbers of a column tell; their texts, which may be millions, are not kept."""

    kinds: frozenset[str]
    """As `kinds_of` calls them."""
    marks: frozenset[str]
    """Of commas and points those that numbers hold."""
    unsure: str | None
    """A number that may be of either way, if there is one."""
    numbers: int
    words: int
    """Cells with letters that are no numbers; those that stand for nothing measured are neither."""
    others: int
    """All that are no numbers."""

    @staticmethod
    def of(cells: Cells, missing: Sequence[str]) -> Column:
        kinds, places = kinds_of(cells, missing)
        counts = dict(zip(kinds, np.bincount(places, minlength=len(kinds)).tolist(), strict=True))
        written = {text: kind for text, kind in kinds.items() if kind}
        others = kinds.keys() - written.keys() - {*missing}
        return Column(
            frozenset(written.values()),
            frozenset(mark for mark in ",." if any(mark in text for text in written)),
            next((t for t, kind in written.items() if kind.startswith("possible")), None),
            sum(counts[text] for text in written),
            sum(counts[text] for text in others if any(c.isalpha() for c in text)),
            sum(counts[text] for text in others),
        )

    def ways(self, kind: str) -> list[Way]:
        """The ways in which numbers of a kind are written."""
        return [way for way in WAYS if f"{kind}_{way.name}" in self.kinds]

    @property
    def own(self) -> list[Way]:
        """The ways that the column tells by itself; of two of them nobody can know."""
        return self.ways("decimals") or self.ways("grouped")

    def apart(self, banded: bool) -> Way | None:
        """How numbers are read that are names: by decimal commas of their own, or not at all.

        Those that may be put into bands, as ages are, may have thousands beside their decimals.
        """
        if self.words > self.numbers:
            return None
        own = self.ways("decimals") if banded else []
        return own[0] if len(own) == 1 else COMMAS if self.marks == {","} else None


@dataclass(frozen=True)
class Survey:
    """What the columns of a file tell, but for those that nothing reads."""

    file: str
    columns: Mapping[str, Column]
    plain: bool
    """Whether commas divide its cells, so that its decimals begin with points."""

    def voters(self, names: frozenset[str]) -> dict[str, Column]:
        """The columns of numbers, but for those that have decimals of both ways."""
        return {n: c for n, c in self.columns.items() if n not in names and len(c.own) < 2}


@dataclass(frozen=True)
class Writing:
    """How the numbers of files are written: decided once for all of them."""

    names: frozenset[str]
    """The columns that hold names rather than numbers."""
    ways: Sequence[Way]
    """Of each file, for the columns that do not tell."""
    decimal: str
    """As `data.decimal` has it."""

    def pointed(
        self, k: int, survey: Survey, cells: Mapping[str, Cells], reading: Reading
    ) -> tuple[dict[str, Cells], list[str]]:
        """The cells of the kth file with numbers as programs write them, and what a person should
        know."""
        changed, told = dict(cells), dict[str, list[str]]()
        for name, column in {} if survey.plain else survey.columns.items():
            way: Way | None
            if name in self.names:
                way = column.apart(name in reading.groups)
            elif len(column.own) > 1:
                way = None  # they stay as they are
            else:
                way = next(iter(column.own), self.ways[k])
            if way is None or column.marks <= ({"."} if way is POINTS else set()):
                continue
            changed[name] = written(cells[name], way, reading.missing_values)
            if way is COMMAS and "," in column.marks:
                note = "numbers with a decimal comma are read as numbers"
            else:
                mark = "points" if way is COMMAS else "commas"
                note = f"{mark} between thousands are left out of numbers"
            told.setdefault(note, []).append(name)
        return changed, [f"{note}: {some(names)}" for note, names in told.items()]


def kinds_of(
    cells: Cells, missing: Sequence[str]
) -> tuple[dict[str, str | None], NDArray[np.intp]]:
    """The texts of a column, each once, with the kind of number that it is, and their places."""
    values, places = np.unique(cells, return_inverse=True)
    aside = {*missing}
    matches = ((t, None if t in aside else NUMBER.fullmatch(t)) for t in values.tolist())
    return {text: match and match.lastgroup for text, match in matches}, places


def written(cells: Cells, way: Way, missing: Sequence[str]) -> Cells:
    """The cells of a column with numbers of a way as programs write them."""
    kinds, places = kinds_of(cells, missing)
    ours = {f"decimals_{way.name}", f"grouped_{way.name}", *(f"possible_{w.name}" for w in WAYS)}
    texts = [way.plain(text) if kind in ours else text for text, kind in kinds.items()]
    result: Cells = np.array(texts, dtype=np.str_)[places]
    return result


def surveyed(file: str, cells: Mapping[str, Cells], plain: bool, reading: Reading) -> Survey:
    """What the columns of a file tell."""
    read = [name for name in cells if not reading.unused(name)]
    columns = {name: Column.of(cells[name], reading.missing_values) for name in read}
    return Survey(file, columns, plain)


def decided(surveys: Sequence[Survey], reading: Reading, wrong: Wrong) -> Writing:
    """How numbers are written in files: as `data.decimal` says, else as a file shows, else as the
    other files do. Points begin decimals where nothing shows anything."""
    known = dict.fromkeys(name for survey in surveys for name in survey.columns)
    names = frozenset(name for name in known if is_name(name, surveys, reading))
    for way in WAYS:
        if reading.decimal == way.name:
            for survey in surveys if reading.lenient else ():
                refuse_other_way(survey.voters(names), way, wrong)
            return Writing(names, [way] * len(surveys), way.name)
    foreign = [survey.voters(names) for survey in surveys if not survey.plain]
    together = [item for columns in foreign for item in columns.items()]
    signs = [signs_of(columns.items()) for columns in foreign]
    usual = {way: name for found in signs[::-1] for way, name in found.items()}
    usual = usual or showing("possible", together)
    found = [
        shared(columns, own or usual, wrong) for columns, own in zip(foreign, signs, strict=True)
    ]
    shown_, rest = {way.name for way in found if way}, iter(found)
    ways = [POINTS if survey.plain else next(rest) or POINTS for survey in surveys]
    writing = Writing(names, ways, shown_.pop() if len(shown_) == 1 else OPEN)
    refuse_two_meanings(surveys, writing, wrong)
    return writing


def is_name(name: str, surveys: Sequence[Survey], reading: Reading) -> bool:
    """Whether a column holds names: it is read as such, or most of its cells are no numbers."""
    own = [survey.columns[name] for survey in surveys if name in survey.columns]
    return reading.names(name) or sum(c.others for c in own) > sum(c.numbers for c in own)


def showing(kind: str, columns: Iterable[tuple[str, Column]]) -> dict[Way, str]:
    """The ways in which numbers of a kind are written, each with the first column that shows it."""
    found: dict[Way, str] = {}
    for name, column in columns:
        for way in column.ways(kind):
            found.setdefault(way, name)
    return found


def signs_of(columns: Iterable[tuple[str, Column]]) -> dict[Way, str]:
    """The ways that columns show beyond doubt: by their decimals, else by long thousands."""
    known = [*columns]
    return showing("decimals", known) or showing("grouped", known)


def shared(columns: Mapping[str, Column], signs: Mapping[Way, str], wrong: Wrong) -> Way | None:
    """The way of a file, where it is known; it must be told without contradiction if there is a
    column that does not tell it by itself."""
    if len(signs) < 2:
        return next(iter(signs), None)
    for name, column in columns.items():
        if column.unsure and not column.own:
            raise wrong(
                f"the column {shown(signs[COMMAS])} has numbers with a decimal comma and "
                f"{shown(signs[POINTS])} with a decimal point, so that nobody can know what "
                f"{column.unsure} in {shown(name)} is; {OUT}, or name a column that holds none in "
                "data.ignore"
            )
    return None


def refuse_other_way(columns: Mapping[str, Column], kept: Way, wrong: Wrong) -> None:
    """Refuse a new file with numbers that may be of either way and signs of another than a model
    was trained on."""
    odd = [(way.name, name) for way, name in signs_of(columns.items()).items() if way is not kept]
    for name, column in columns.items():
        if odd and column.unsure and not column.own:
            raise wrong(
                f"the column {shown(odd[0][1])} has numbers with a decimal {odd[0][0]}, and the "
                f"model was trained on numbers with a decimal {kept.name}, so that nobody can know "
                f"what {column.unsure} in {shown(name)} is; write all numbers with a decimal "
                f"{kept.name}"
            )


def refuse_two_meanings(surveys: Sequence[Survey], writing: Writing, wrong: Wrong) -> None:
    """Refuse a column whose 1.566 is thousands in one file and has decimals in another, unless it
    tells so itself in both."""
    seen: dict[tuple[str, bool], tuple[Survey, bool]] = {}
    for survey, usual in zip(surveys, writing.ways, strict=True):
        for name, column in survey.voters(writing.names).items():
            sure = survey.plain or bool(column.own)
            way = usual if survey.plain else next(iter(column.own), usual)
            for possible in column.ways("possible"):
                thousands = possible is not way
                if not sure or (name, thousands) not in seen:
                    seen[name, thousands] = (survey, sure)
                other, known = seen.get((name, not thousands), (survey, True))
                if other is not survey and not (sure and known):
                    one, two = (survey, other) if thousands else (other, survey)
                    raise wrong(
                        f"by the other columns, {column.unsure} in {shown(name)} is thousands in "
                        f"{one.file} and has decimals in {two.file}; {OUT}"
                    )
