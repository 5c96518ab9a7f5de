"""Table: the cells of a CSV or Parquet file, or of a folder with a file for each site, as texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, printable
from fedkf.core.extras import install
from fedkf.core.limits import in_words, memory, proper_text, shown
from fedkf.data.files import find

ENDINGS = (".csv", ".tsv", ".data", ".txt", ".parquet")
ROOM = 20
"""Bytes of memory that a byte of such a file takes while it is read."""
Cells = NDArray[np.str_]


@dataclass(frozen=True)
class Table:
    """Columns of texts, with the file and the line of each row; `sited` where a file is a site."""

    where: str
    cells: dict[str, Cells]
    files: Cells
    lines: NDArray[np.int64]
    sited: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.cells)

    @property
    def rows(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Where a person finds a row."""
        return f"{self.files[row]}, line {self.lines[row]}"

    def take(self, chosen: NDArray[np.bool_]) -> Table:
        """Some of the rows."""
        cells = {name: column[chosen] for name, column in self.cells.items()}
        return replace(self, cells=cells, files=self.files[chosen], lines=self.lines[chosen])


def read_table(path: str, header: Sequence[str] | None = None) -> Table:
    """All rows of a file, or of the files of a folder, which have the same columns.

    A `header` stands in for the first line of files that have none.
    """
    given = Path(path).expanduser()
    file = find(path, folder=given.is_dir() or not given.suffix)
    if not file.is_dir():
        return read_files(str(file), [file], header)
    files = sorted(p for p in file.iterdir() if p.suffix.lower() in ENDINGS and p.is_file())
    if not files:
        raise UserError(f"data.path: {file} holds no tables ({', '.join(ENDINGS)})")
    return replace(read_files(str(file), files, header), sited=True)


def read_files(where: str, files: Sequence[Path], header: Sequence[str] | None = None) -> Table:
    """The rows of these files, one after the other, in the first one's order of columns."""
    tables: list[Table] = []
    for file in files:
        table = read_parquet(file) if file.suffix == ".parquet" else read_csv(file, header)
        names = tables[0].names if tables else table.names
        if odd := sorted(set(names) ^ set(table.names)):
            lacks, has = (file, files[0]) if odd[0] in names else (files[0], file)
            raise UserError(
                f"data.path: {lacks.name} has no column {odd[0]!r}, which {has.name} has; the "
                f"files in {where} must have the same columns"
            )
        tables.append(table)
    if not sum(table.rows for table in tables):
        raise UserError(f"data.path: {where} holds no rows")
    return Table(
        f"data.path: {where}",
        {name: np.concatenate([t.cells[name] for t in tables]) for name in tables[0].names},
        np.concatenate([t.files for t in tables]),
        np.concatenate([t.lines for t in tables]),
    )


def made_of(file: Path, cells: dict[str, Cells], lines: Sequence[int]) -> Table:
    places = np.array(lines, dtype=np.int64)
    return Table(f"data.path: {file}", cells, np.full(len(places), file.name), places)


def read_csv(file: Path, header: Sequence[str] | None = None) -> Table:
    """The columns of a CSV file, divided by commas, semicolons or tabs."""

    def wrong(reason: str) -> UserError:
        return UserError(f"data.path: {file}: {reason}")

    try:
        size = file.stat().st_size
        if size * ROOM > memory():
            raise wrong(f"it takes {in_words(size * ROOM)}, more than half of this machine has")
        content = file.read_text("utf-8-sig")
        divider = max(",;\t", key=content.partition("\n")[0].count)
        reader = csv.reader(io.StringIO(content), delimiter=divider)
        rows = [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError:
        raise wrong("it is no text in UTF-8") from None
    except (OSError, csv.Error) as error:
        raise wrong(f"it cannot be read ({printable(error)})") from None
    first = header if header is not None else (rows.pop(0)[1] if rows else [])
    names = [name.strip() for name in first]
    check_names(names, wrong)
    for line, row in rows:
        if len(row) != len(names):
            raise wrong(f"line {line} has {len(row)} cells, and there are {len(names)} columns")
    columns = zip(*(row for _, row in rows), strict=True) if rows else ((),) * len(names)
    pairs = zip(names, columns, strict=True)
    cells = {name: np.char.strip(np.array(column, dtype=np.str_)) for name, column in pairs}
    return made_of(file, cells, [line for line, _ in rows])


def check_names(names: Sequence[str], wrong: Callable[[str], UserError]) -> None:
    """Refuse a header that is none."""
    if not names:
        raise wrong("it is empty")
    doubled = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if doubled is not None:
        raise wrong(f"two columns are named {shown(doubled)}")
    for name in names:
        if not proper_text(name):
            raise wrong(f"the column {shown(name)} holds characters that cannot be shown")


def read_parquet(file: Path) -> Table:
    """The columns of a Parquet file as texts; nothing measured is an empty one."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"data.path: {file}: Parquet files need {install('tables')}") from None
    try:
        content = parquet.read_table(file)
        columns = {name: content.column(name).to_pylist() for name in content.column_names}
    except Exception as error:  # pyarrow's own, of many kinds
        raise UserError(f"data.path: {file} cannot be read ({printable(error)})") from None
    check_names(list(columns), lambda reason: UserError(f"data.path: {file}: {reason}"))
    cells = {
        name: np.array(["" if value is None else str(value).strip() for value in column], np.str_)
        for name, column in columns.items()
    }
    return made_of(file, cells, range(1, content.num_rows + 1))
