"""Cells: the texts of a table's files, as programs and countries of all kinds write them."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, printable
from fedkf.core.limits import in_words, memory, shown
from fedkf.data.reading import composed

Cells = NDArray[np.str_]
Wrong = Callable[[str], UserError]
Unused = Callable[[str], bool]
"""Whether nothing reads the column of a name."""
PACKED = ".gz"
ROOM = 20
"""Bytes of memory that a byte of such a file takes while it is read."""
CHARACTER = 4
"""Bytes of a character in an array, where every cell of a column takes those of the longest."""
CUT = 100
"""Characters that are kept of what nothing reads, where there is no room for all."""
UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""What columns are called that only number the rows."""
DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([ T]\d.*)?")


def ending(file: Path) -> str:
    """What kind of file it is, packed or not: .csv of north.csv.gz."""
    plain = file.with_suffix("") if file.suffix.lower() == PACKED else file
    return plain.suffix.lower()


def stem(name: str) -> str:
    """A file's name without its endings."""
    plain = Path(name)
    return str(composed((plain.with_suffix("") if plain.suffix.lower() == PACKED else plain).stem))


def read_text(file: Path, wrong: Wrong) -> str:
    """The text of a file, unpacked where it is packed, if this machine has room for it."""
    most = memory() // ROOM
    try:
        if file.suffix.lower() == PACKED:
            with gzip.open(file) as opened:
                content = opened.read(most + 1)
            size = len(content)
        else:
            size = file.stat().st_size
            content = b"" if size > most else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise wrong(f"it cannot be read ({printable(error)})") from None
    if size > most:
        raise wrong(f"it takes {in_words(size * ROOM)}, more than half of this machine has")
    if content.startswith(b"PK\x03\x04"):
        raise wrong("it is no text but an archive, as spreadsheets are; save it as CSV")
    try:
        return str(composed(content.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise wrong(
            "it is no text in UTF-8; save it as such, or convert it, as with "
            "iconv -f WINDOWS-1252 -t UTF-8"
        ) from None


def as_cells(
    columns: Mapping[str, Sequence[str]], unused: Unused, wrong: Wrong
) -> dict[str, Cells]:
    """Columns of texts as arrays, without spaces around them."""
    texts = {name: [text.strip() for text in column] for name, column in columns.items()}
    lengths = {name: max(map(len, column), default=0) for name, column in texts.items()}
    rows = max(map(len, texts.values()), default=0)
    lengths = fitting(lengths, rows, unused, wrong)
    return {
        name: np.array(column, dtype=f"U{max(1, lengths[name])}") for name, column in texts.items()
    }


def fitting(lengths: Mapping[str, int], rows: int, unused: Unused, wrong: Wrong) -> dict[str, int]:
    """How many characters of each column have room: all, or a few of those that nothing reads."""
    most = memory()
    if CHARACTER * rows * sum(lengths.values()) <= most:
        return dict(lengths)
    kept = {name: min(n, CUT) if unused(name) else n for name, n in lengths.items()}
    if (size := CHARACTER * rows * sum(kept.values())) > most:
        longest = max(kept, key=lambda name: kept[name])
        raise wrong(
            f"the column {shown(longest)} has a text of {kept[longest]:,} characters, and with "
            f"room for that in each of {rows:,} rows it takes {in_words(size)}, more than half of "
            "this machine has; shorten such texts, or name the column in data.ignore"
        )
    return kept


def without_row_numbers(cells: Mapping[str, Cells]) -> tuple[dict[str, Cells], list[str]]:
    """The columns without those that have no name and only number the rows, or hold nothing."""
    dropped = [name for name in cells if UNNAMED.fullmatch(name) and says_nothing(cells[name])]
    return {name: column for name, column in cells.items() if name not in dropped}, dropped


def says_nothing(column: Cells) -> bool:
    """Whether cells are empty, or whole numbers of which none occurs twice."""
    if not (column != "").any():
        return True
    distinct = np.unique(column)
    return len(distinct) == len(column) and all(str(v).isdigit() for v in distinct)


def are_dates(column: Cells) -> bool:
    """Whether cells are days, as 2020-12-31 or 31.12.2020, with or without a time."""
    return bool(len(column)) and all(DATE.fullmatch(str(value)) for value in np.unique(column))


def numbers(cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The cells as numbers, NaN where one is none, and which those are."""
    try:
        found = cells.astype(np.float64)
    except ValueError:
        found = np.array([as_number(str(cell)) for cell in cells])
    return found, ~np.isfinite(found)


def as_number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def recoded(cells: Cells, missing: Sequence[str]) -> Cells:
    """A column of numbers in which those that equal one that stands for nothing measured, as -9.0
    does -9, are written as that one; a column of other things stays as it was."""
    codes = {as_number(text): text for text in reversed(missing)}
    texts, places = np.unique(cells, return_inverse=True)
    values, mistaken = numbers(texts)
    others = mistaken & ~np.isin(texts, missing)
    if 2 * others.sum() > len(texts) or not np.isin(values, list(codes)).any():
        return cells
    pairs = zip(values.tolist(), texts.tolist(), strict=True)
    result: Cells = np.array([codes.get(value, text) for value, text in pairs])[places]
    return result
