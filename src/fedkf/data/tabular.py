"""Table: the cells of a CSV or Parquet file, or of a folder with a file for each site, as texts."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, printable
from fedkf.core.extras import install
from fedkf.core.limits import proper_text, shown
from fedkf.data.cells import (
    CHARACTER,
    Cells,
    Unused,
    Wrong,
    as_cells,
    as_number,
    ending,
    fitting,
    read_text,
    recoded,
    without_row_numbers,
)
from fedkf.data.decimals import Survey, Writing, decided, surveyed
from fedkf.data.files import find, some
from fedkf.data.reading import Reading, composed

ENDINGS = (".csv", ".tsv", ".data", ".txt", ".parquet")
"""Of tables; all but the last may also be packed (.csv.gz)."""


@dataclass(frozen=True)
class Table:
    """Columns of texts, with the file and the line of each row; `sited` where a file is a site.

    `absent` are the columns that some files lack, each with one that lacks it and one that has it;
    their cells are empty there. `notes` are what a person should know of how files were read.
    `unit` is what a row is called, and `counted` what its place in the file is. `plain` says that
    its numbers are as programs write them, `decimal` how they were written otherwise.
    """

    where: str
    cells: dict[str, Cells]
    files: Cells
    lines: NDArray[np.int64]
    sited: bool = False
    absent: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    unit: str = "row"
    counted: str = "line"
    plain: bool = True
    decimal: str | None = None

    @property
    def names(self) -> list[str]:
        return list(self.cells)

    @property
    def rows(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Where a person finds a row."""
        where = f"{self.counted} {self.lines[row]}"
        return f"{self.files[row]}, {where}" if self.files[row] else where

    def take(self, chosen: NDArray[np.bool_]) -> Table:
        """Some of the rows."""
        cells = {name: column[chosen] for name, column in self.cells.items()}
        return replace(self, cells=cells, files=self.files[chosen], lines=self.lines[chosen])


def read_table(path: str, reading: Reading) -> Table:
    """All rows of a file, or of the files of a folder, which have the same columns."""
    given = Path(path).expanduser()
    file = find(path, folder=given.is_dir() or not given.suffix)
    if not file.is_dir():
        return read_files(str(file), [file], reading=reading)
    try:
        files = sorted(p for p in file.iterdir() if is_table(p))
    except OSError as error:
        raise UserError(f"data.path: {file} cannot be read: {error.strerror}") from None
    if not files:
        raise UserError(f"data.path: {file} holds no tables ({', '.join(ENDINGS)})")
    found = read_files(str(file), files, reading=reading)
    return replace(found, sited=True, notes=[*left_out(file, files, found), *found.notes])


def is_table(file: Path) -> bool:
    """Whether a file in a folder is a table, and not hidden."""
    return ending(file) in ENDINGS and not file.name.startswith(".") and file.is_file()


def left_out(folder: Path, files: Sequence[Path], found: Table) -> list[str]:
    """What is in a folder of tables and is no site."""
    notes = []
    shown_ = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    if others := [name for name in shown_ if name not in {p.name for p in files}]:
        notes.append(f"left out, as it is no table: {some(others)} in {folder}")
    having = set(found.files.tolist())
    if bare := [p.name for p in files if p.name not in having]:
        notes.append(f"left out, as it has no rows: {some(bare)} in {folder}")
    return notes


def read_files(
    where: str,
    files: Sequence[Path],
    header: Sequence[str] | None = None,
    reading: Reading = Reading(),  # noqa: B008
) -> Table:
    """The rows of these files, one after the other, in the first one's order of columns.

    A `header` stands in for the first line of files that have none.
    """

    def wrong(reason: str) -> UserError:
        return UserError(f"data.path: {where}: {reason}")

    unused = reading.unused
    tables = [
        read_parquet(f, unused) if ending(f) == ".parquet" else as_written(f, header, unused)
        for f in files
    ]
    tables = with_points(tables, reading, wrong)
    if not sum(table.rows for table in tables):
        raise UserError(f"data.path: {where} holds no rows")
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    absent = {}
    for name in names:
        lacking = [f.name for f, t in zip(files, tables, strict=True) if name not in t.cells]
        having = [f.name for f, t in zip(files, tables, strict=True) if name in t.cells]
        if lacking:
            absent[name] = (lacking[0], having[0])
    return Table(
        f"data.path: {where}",
        joined(tables, names, unused, wrong),
        np.concatenate([t.files for t in tables]),
        np.concatenate([t.lines for t in tables]),
        absent=absent,
        notes=list(dict.fromkeys(text for table in tables for text in table.notes)),
        decimal=tables[0].decimal,
    )


def joined(
    tables: Sequence[Table], names: Sequence[str], unused: Unused, wrong: Wrong
) -> dict[str, Cells]:
    """The cells of several tables, one after the other; empty where one lacks the column."""
    empty = np.array("", dtype=np.str_)
    parts = {name: [t.cells.get(name, np.full(t.rows, empty)) for t in tables] for name in names}
    lengths = {name: max(p.itemsize for p in parts[name]) // CHARACTER for name in names}
    lengths = fitting(lengths, sum(t.rows for t in tables), unused, wrong)
    return {
        name: np.concatenate([p.astype(f"U{lengths[name]}", copy=False) for p in parts[name]])
        for name in names
    }


def made_of(file: Path, cells: dict[str, Cells], lines: Sequence[int]) -> Table:
    notes: list[str] = []
    kept, dropped = without_row_numbers(cells)
    if dropped and kept:
        cells, what = kept, "a column without a name that only numbers the rows"
        notes = [f"{file.name}: {what} is left out"]
    check_names(list(cells), lambda reason: UserError(f"data.path: {file}: {reason}"))
    places = np.array(lines, dtype=np.int64)
    return Table(f"data.path: {file}", cells, np.full(len(places), file.name), places, notes=notes)


def with_points(tables: Sequence[Table], reading: Reading, wrong: Wrong) -> list[Table]:
    """The tables of files with numbers as programs write them."""
    if all(table.plain for table in tables):
        return [with_codes(table, reading) for table in tables]
    surveys = [survey(table, reading) for table in tables]
    writing = decided(surveys, reading, wrong)
    each = enumerate(zip(tables, surveys, strict=True))
    return [pointed(table, own, writing, k, reading) for k, (table, own) in each]


def survey(table: Table, reading: Reading) -> Survey:
    """What the numbers of a file tell."""
    file = table.where.removeprefix("data.path: ")
    return surveyed(Path(file).name, table.cells, table.plain, reading)


def pointed(table: Table, own: Survey, writing: Writing, k: int, reading: Reading) -> Table:
    """The table of the kth file with numbers as programs write them."""
    cells, notes = writing.pointed(k, own, table.cells, reading)
    notes = [*table.notes, *notes]
    found = replace(table, cells=cells, notes=notes, plain=True, decimal=writing.decimal)
    return with_codes(found, reading)


def with_codes(table: Table, reading: Reading) -> Table:
    """The table with all spellings of a number in `data.missing_values` written as it is there.

    Sites and what `data.split_by` names may be called 01 and 1, and stay as they are.
    """
    missing = reading.missing_values
    if not any(math.isfinite(as_number(text)) for text in missing):
        return table
    called = (reading.site, reading.split_by)
    cells = {
        name: column if name in called or reading.unused(name) else recoded(column, missing)
        for name, column in table.cells.items()
    }
    return replace(table, cells=cells)


def read_csv(file: Path, reading: Reading = Reading()) -> Table:  # noqa: B008
    """The columns of a CSV file with numbers as programs write them."""
    table = as_written(file, None, reading.unused)
    (found,) = with_points([table], reading, lambda why: UserError(f"data.path: {file}: {why}"))
    return found


def read_each(where: str, files: Sequence[Path], reading: Reading) -> Iterator[Table]:
    """The tables of CSV files, one after the other, as memory may not hold them all.

    At the first one whose numbers may have commas, what all of them tell is looked at.
    """
    surveys: list[Survey] = []
    for k, file in enumerate(files):
        table = as_written(file, None, reading.unused)
        if table.plain:
            yield with_codes(table, reading)
            continue
        if not surveys:
            others = (table if f is file else as_written(f, None, reading.unused) for f in files)
            surveys = [survey(other, reading) for other in others]
            writing = decided(surveys, reading, lambda reason: UserError(f"{where}: {reason}"))
        yield pointed(table, surveys[k], writing, k, reading)


def as_written(
    file: Path, header: Sequence[str] | None = None, unused: Unused = lambda name: False
) -> Table:
    """The columns of a CSV file, divided by commas, semicolons or tabs.

    Of columns that are `unused` nothing but their names is needed.
    """

    def wrong(reason: str) -> UserError:
        return UserError(f"data.path: {file}: {reason}")

    content = read_text(file, wrong)
    try:
        divider = max(",;\t", key=content.partition("\n")[0].count)
        reader = csv.reader(io.StringIO(content, newline=None), delimiter=divider)
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise wrong(f"it cannot be read ({printable(error)})") from None
    first = header if header is not None else (rows.pop(0)[1] if rows else [])
    names = [name.strip() for name in first]
    check_names(names, wrong)
    for line, row in rows:
        if len(row) != len(names):
            raise wrong(f"line {line} has {len(row)} cells, and there are {len(names)} columns")
    columns = zip(*(row for _, row in rows), strict=True) if rows else ((),) * len(names)
    cells = as_cells(dict(zip(names, columns, strict=True)), unused, wrong)
    return replace(made_of(file, cells, [line for line, _ in rows]), plain=divider == ",")


def check_names(names: Sequence[str], wrong: Wrong) -> None:
    """Refuse a header that is none."""
    if not names:
        raise wrong("it is empty")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise wrong(f"two columns are named {shown(name)}")
        seen.add(name)
    for name in names:
        if not proper_text(name):
            raise wrong(f"the column {shown(name)} holds characters that cannot be shown")


def read_parquet(file: Path, unused: Unused = lambda name: False) -> Table:
    """The columns of a Parquet file as texts; nothing measured is an empty one."""

    def wrong(reason: str) -> UserError:
        return UserError(f"data.path: {file}: {reason}")

    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"data.path: {file}: Parquet files need {install('tables')}") from None
    try:
        content = parquet.read_table(file)
        names = [composed(name) for name in content.column_names]
        values = [content.column(k).to_pylist() for k in range(len(names))]
    except Exception as error:  # pyarrow's own, of many kinds
        raise UserError(f"data.path: {file} cannot be read ({printable(error)})") from None
    check_names(names, wrong)
    texts = {
        name: ["" if value is None else composed(str(value)) for value in column]
        for name, column in zip(names, values, strict=True)
    }
    cells = as_cells(texts, unused, wrong)
    return made_of(file, cells, range(1, content.num_rows + 1))
