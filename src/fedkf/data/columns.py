"""Columns: what the cells of a table are as numbers, and what is done where there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest
from fedkf.core.limits import shown
from fedkf.data.cells import Cells, are_dates, numbers
from fedkf.data.reading import Reading
from fedkf.data.tabular import Table
from fedkf.data.targets import LARGEST, absurd_inputs

Floats = NDArray[np.float32]
MOST_CATEGORIES = 50
"""A text column with more is rather a name, a date or a number of somebody."""


@dataclass(frozen=True)
class Layout:
    """What the inputs are made of, the same at all sites: columns in their order, the categories of
    those that are categorical, and those that say beside their value whether it was missing."""

    columns: Sequence[str]
    categories: Mapping[str, Sequence[str]]
    indicators: Sequence[str]

    @property
    def input_names(self) -> list[str]:
        """A name for each input. The first category is the one that all zeros stand for."""
        names: list[str] = []
        for column in self.columns:
            if column in self.categories:
                names += [f"{column}={value}" for value in self.categories[column][1:]]
            else:
                names.append(column)
        return [*names, *(f"{column} missing" for column in self.indicators)]


def chosen_columns(table: Table, reading: Reading) -> list[str]:
    """The columns that are inputs: those named, or all that are nothing else."""
    for key, name in [
        *(("data.target", name) for name in reading.targets),
        *(("data.site", name) for name in [reading.site] if name),
        *(("data.split_by", name) for name in [reading.split_by] if name),
        *(("data.groups", name) for name in reading.groups),
        *(("data.columns", name) for name in reading.columns or ()),
        *(("data.categorical", name) for name in reading.categorical),
        *(("data.ignore", name) for name in reading.ignore),
    ]:
        if name not in table.cells:
            hint = nearest(name, table.names)
            raise UserError(f"{key}: {table.where} has no column {name!r}; {hint}")
    taken = {*reading.targets, reading.site, reading.split_by, *reading.groups, *reading.ignore}
    if reading.columns is None:
        chosen = [name for name in table.names if name not in taken]
    else:
        chosen = list(reading.columns)
        if leak := [name for name in chosen if name in reading.targets]:
            raise UserError(f"data.columns: {leak[0]!r} is the target, so it is no input")
        if both := [name for name in chosen if name in reading.ignore]:
            raise UserError(f"data.ignore leaves {both[0]!r} out, and data.columns takes it")
    if not chosen:
        raise UserError(f"{table.where} has no columns beside the target and the site")
    check_absent(table, reading, chosen)
    return chosen


def check_absent(table: Table, reading: Reading, chosen: Sequence[str]) -> None:
    """Refuse a column that some files lack, unless it is an input that was asked for by name."""
    asked = [] if reading.columns is None else chosen
    for name in (*reading.targets, reading.site, reading.split_by, *reading.groups, *chosen):
        if name is not None and name in table.absent and name not in asked:
            lacks, has = table.absent[name]
            raise UserError(
                f"data.path: {lacks} has no column {name!r}, which {has} has; data.ignore leaves "
                "an input out, and one that data.columns names counts as missing there"
            )


def layout_of(table: Table, reading: Reading) -> Layout:
    """The layout that the configuration gives, completed from the cells."""
    columns = chosen_columns(table, reading)
    named = {name: list(values) for name, values in (reading.categories or {}).items()}
    categories: dict[str, list[str]] = {}
    indicators: list[str] = []
    for name in columns:
        cells = table.cells[name]
        there = ~np.isin(cells, reading.missing_values)
        if not there.all() and reading.missing == "indicator":
            indicators.append(name)
        if name in named:
            categories[name] = named[name]
        elif name in reading.categorical or (
            reading.categories is None and mostly_text(cells[there])
        ):
            categories[name] = categories_of(table, name, there, name in reading.categorical)
    if reading.indicators is not None:
        indicators = [name for name in columns if name in reading.indicators]
    layout = Layout(columns, categories, indicators)
    if not layout.input_names:
        raise UserError(
            f"{table.where}: its inputs ({', '.join(columns[:5])}) hold a single category each, so "
            "that nothing tells rows apart"
        )
    return layout


def mostly_text(cells: Cells) -> bool:
    """Whether a column holds texts, rather than numbers with a few mistakes among them."""
    return bool(len(cells)) and numbers(cells)[1].mean() > 0.5


def categories_of(table: Table, name: str, there: NDArray[np.bool_], asked: bool) -> list[str]:
    """The different values of a column, in one fixed order: numbers by size, texts by letters."""
    values = np.unique(table.cells[name][there])
    if not asked and are_dates(values):
        raise UserError(
            f"{table.where}: the column {name!r} holds dates, such as {shown(str(values[0]))}; "
            "give days or years as a number, leave it out (data.ignore), or name it in "
            "data.categorical"
        )
    if len(values) > MOST_CATEGORIES and not asked:
        raise UserError(
            f"{table.where}: the column {name!r} holds {len(values)} different texts, such as "
            f"{shown(str(values[0]))}; leave it out (data.ignore), or name it in data.categorical"
        )
    if not len(values):
        raise UserError(f"{table.where}: the column {name!r} holds no values at all")
    as_numbers, mistaken = numbers(values)
    if mistaken.any():
        return [str(value) for value in values]
    written: dict[float, str] = {}  # 1 and 1.0 are one category, in the shorter way
    for value, number in zip(values.tolist(), as_numbers.tolist(), strict=True):
        written[number] = min(written.get(number, value), value, key=len)
    return [written[number] for number in sorted(written)]


def inputs_of(table: Table, layout: Layout, reading: Reading) -> Floats:
    """N×F numbers, NaN where nothing was measured; indicators are the last columns."""
    found: list[NDArray[np.float64]] = []
    absent: dict[str, NDArray[np.bool_]] = {}
    for name in layout.columns:
        cells = table.cells[name]
        absent[name] = np.isin(cells, reading.missing_values)
        if name in layout.categories:
            found += one_hot(table, name, layout.categories[name], absent[name])
        else:
            found.append(numeric(table, name, absent[name]))
    found += [absent[name].astype(np.float64) for name in layout.indicators]
    return np.stack(found, axis=1).astype(np.float32)


def numeric(
    table: Table, name: str, absent: NDArray[np.bool_], other: str = "data.categorical"
) -> NDArray[np.float64]:
    """A column of numbers, or a sentence that names the first cell that is none.

    `other` is the key for columns that are no numbers.
    """
    values = np.full(table.rows, np.nan)
    values[~absent], mistaken = numbers(table.cells[name][~absent])
    mistaken |= np.abs(values[~absent]) > LARGEST
    if mistaken.any():
        rows = np.flatnonzero(~absent)[mistaken]
        cell, more = str(table.cells[name][rows[0]]), len(rows) - 1
        raise UserError(
            f"{table.where}: the column {name!r} holds numbers, but {shown(cell)} in "
            f"{table.place(int(rows[0]))}{f' (and {more} more)' if more else ''}; correct it, add "
            f"it to data.missing_values, or name the column in {other}"
        )
    if (odd := absurd_inputs(values[~absent])).any():
        rows = np.flatnonzero(~absent)[odd]
        cell, more = str(table.cells[name][rows[0]]), len(rows) - 1
        raise UserError(
            f"{table.where}: the column {name!r} is {shown(cell)} in {table.place(int(rows[0]))}"
            f"{f' (and {more} more)' if more else ''}, which is absurdly large beside the others; "
            "correct it, or add it to data.missing_values"
        )
    return values


def one_hot(
    table: Table, name: str, categories: Sequence[str], absent: NDArray[np.bool_]
) -> list[NDArray[np.float64]]:
    """A column for each category but the first; all of them NaN where there is no value."""
    cells = canonical(table.cells[name], categories)
    unknown = ~absent & ~np.isin(cells, list(categories))
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise UserError(
            f"{table.where}: the column {name!r} holds {shown(str(cells[row]))} in "
            f"{table.place(row)}, which is not in data.categories; it may be "
            f"{', '.join(categories[:10])}"
        )
    return [np.where(absent, np.nan, cells == value) for value in categories[1:]]


def canonical(cells: Cells, categories: Sequence[str]) -> Cells:
    """Cells with numbers as the categories write them: 1.0 where those say 1."""
    known, mistaken = numbers(np.array(list(categories), dtype=np.str_))
    if mistaken.any():
        return cells
    values, _ = numbers(cells)
    written = dict(zip(known.tolist(), categories, strict=True))
    pairs = zip(values.tolist(), cells.tolist(), strict=True)
    return np.array([written.get(value, cell) for value, cell in pairs], dtype=np.str_)
