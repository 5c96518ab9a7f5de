"""Rows: new samples without targets, read as those were that a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest
from fedkf.data.arrays import read_npz
from fedkf.data.cells import Cells, as_cells
from fedkf.data.columns import Layout, inputs_of
from fedkf.data.reading import Reading, composed
from fedkf.data.recordings import channel_names, cut_at_changes
from fedkf.data.signals import chosen_channels, in_units
from fedkf.data.source import Say
from fedkf.data.table import missing_in
from fedkf.data.tabular import Table, check_names, read_csv, read_table, with_codes


@dataclass(frozen=True)
class Rows:
    """Inputs N×…, NaN where nothing was measured; the file of each and its place there."""

    inputs: NDArray[Any]
    files: Sequence[str]
    places: Sequence[int]
    counted: str = "line"
    """What is counted in a file, from 1: lines; from 0: rows of an object, samples of an array."""

    def place(self, row: int) -> str:
        """Where a person finds a row."""
        where = f"{self.counted} {self.places[row]}"
        return f"{self.files[row]}, {where}" if self.files[row] else where


def table_rows(found: Table, reading: Reading) -> Rows:
    """The inputs of a table's rows; the layout is the one that the reading spells out."""
    columns = list(reading.columns or ())
    if lacking := [name for name in columns if name not in found.cells]:
        hint = nearest(lacking[0], found.names)
        raise UserError(
            f"{found.where} has no column {lacking[0]!r}, an input of the model; {hint}"
        )
    if reading.missing == "drop" and (partly := missing_in(found, columns, reading)).any():
        count, first = int(partly.sum()), found.place(int(np.flatnonzero(partly)[0]))
        raise UserError(
            f"{found.where}: {count} of {found.rows} rows lack a value, the first in {first}; the "
            "run left such rows out (data.missing is drop), so nothing is known of them"
        )
    layout = Layout(columns, reading.categories or {}, list(reading.indicators or ()))
    inputs = inputs_of(found, layout, reading)
    counted = "line" if found.files[0] else "row"
    return Rows(inputs, found.files.tolist(), found.lines.tolist(), counted)


def file_rows(path: str, reading: Reading, say: Say = lambda text: None) -> Rows:
    """The rows of a CSV or Parquet file, or of a folder of these."""
    table = read_table(path, reading)
    for text in table.notes:
        say(text)
    return table_rows(replace(table, where=table.where.removeprefix("data.path: ")), reading)


def object_rows(given: Any, reading: Reading) -> Rows:
    """Rows that a program holds: a DataFrame, columns by name, or a mapping for each row."""
    columns = columns_of(given)
    if not columns or not next(iter(columns.values())):
        raise UserError("the rows hold nothing; give a DataFrame, or a mapping for each row")
    absent = next(iter(reading.missing_values), "")
    texts = {composed(str(k)): [as_cell(value, absent) for value in v] for k, v in columns.items()}
    if len(lengths := {len(column) for column in texts.values()}) > 1:
        raise UserError(f"the columns of the rows have {sorted(lengths)} values; give as many each")
    count = lengths.pop()
    cells = as_cells(texts, reading.unused, lambda reason: UserError(f"rows: {reason}"))
    table = Table("rows", cells, np.full(count, ""), np.arange(count), counted="row")
    return table_rows(with_codes(table, reading), reading)


def columns_of(given: Any) -> dict[Any, list[Any]]:
    """The columns of a DataFrame, of a mapping, or of a mapping for each row."""
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        check_names([str(name) for name in given.columns], lambda why: UserError(f"rows: {why}"))
        return {name: given[name].tolist() for name in given.columns}
    if isinstance(given, Mapping):
        single = [not hasattr(v, "__len__") or isinstance(v, str) for v in given.values()]
        return {k: [v] if all(single) else list(v) for k, v in given.items()}
    names = dict.fromkeys(name for row in given for name in row)
    return {name: [row.get(name) for row in given] for name in names}


def as_cell(value: Any, absent: str) -> str:
    """A value as a file would have it."""
    nothing = value is None or value != value  # NaN differs from itself
    return absent if nothing else str(composed(str(value).strip()))


def is_rows(given: Any) -> bool:
    """Whether something is rows with names rather than an array of numbers."""
    if isinstance(given, Mapping) or (hasattr(given, "columns") and hasattr(given, "to_dict")):
        return True
    return isinstance(given, Sequence) and bool(given) and isinstance(given[0], Mapping)


def signal_rows(path: Path, reading: Reading, say: Say = lambda text: None) -> Rows:
    """The signals of an .npz file, or the windows of a recording in a CSV file."""
    if path.suffix == ".npz":
        arrays = read_npz(path, "signals", also=("scale",))
        inputs = in_units(arrays["signals"], arrays.get("scale"), str(path))
        if reading.window is None:  # columns of recordings are none of an array's
            inputs = chosen_channels(inputs, reading, str(path))
        return Rows(inputs, [path.name] * len(inputs), range(len(inputs)), "sample")
    window = reading.window
    if window is None:
        raise UserError(
            f"the model was trained on arrays; {path} must be an .npz file with signals"
        )
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the recordings in it, each a file")
    table, reading = unlabelled(read_csv(path, reading), reading)
    for text in table.notes:
        say(text)
    place = Path("any", path.name)  # the folder that stands in for the target that is not there
    found = cut_at_changes(table, place, channel_names(table, reading), reading)
    starts = [
        (recording, at)
        for recording in found
        for at in range(0, recording.length - window + 1, reading.stride or window)
    ]
    if not starts:
        raise UserError(
            f"{path} has no {window} rows in one piece, which make a sample (data.window)"
        )
    inputs = np.stack([recording.values[:, at : at + window] for recording, at in starts])
    lines = [int(recording.lines[at]) for recording, at in starts]
    return Rows(inputs, [path.name] * len(lines), lines)


def unlabelled(table: Table, reading: Reading) -> tuple[Table, Reading]:
    """A recording without its target, if it has one; site and session, where told, still cut it."""
    aside = {*reading.targets, *reading.groups} - {*(reading.columns or ()), reading.split_by}
    cells: dict[str, Cells] = {k: v for k, v in table.cells.items() if k not in aside}
    site = reading.site if reading.site in cells else None
    session = reading.split_by if reading.split_by in cells else None
    where = table.where.removeprefix("data.path: ")
    return replace(table, cells=cells, where=where), replace(
        reading, target=None, groups=(), site=site, split_by=session
    )
