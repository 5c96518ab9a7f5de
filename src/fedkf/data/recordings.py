"""Recordings: a CSV file has a row for each moment; rows of one person, or of one session, belong
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest
from fedkf.core.objective import find
from fedkf.data.cells import Cells, ending
from fedkf.data.clocks import clock_notes, is_clock, steady
from fedkf.data.columns import numeric
from fedkf.data.folder import walk
from fedkf.data.outcomes import check_spelling
from fedkf.data.owners import refuse_unnamed
from fedkf.data.reading import Reading, comparison, composed
from fedkf.data.source import Say
from fedkf.data.tabular import Table, read_each

ENDINGS = (".csv", ".tsv", ".txt")
MOST_NOTES = 3
"""Of how files were read; thousands of them may say the same, each with its name."""


@dataclass(frozen=True)
class Recording:
    """Rows of a file that belong together: channels×time, a label for each row, and whose."""

    file: str
    lines: NDArray[np.int64]
    site: str | None
    values: NDArray[np.float32]
    labels: Cells
    session: str | None = None
    """What `data.split_by` says of it, where that is asked for."""
    groups: Mapping[str, Cells] = field(default_factory=dict)
    """What else is asked for of each row (`data.groups`)."""
    steady: frozenset[str] = frozenset()
    """The channels that rise by the same step from row to row."""
    scattered: int = 1
    """In how many places of the file its rows stood."""

    @property
    def length(self) -> int:
        return len(self.labels)

    def part(self, start: int, end: int) -> Recording:
        values, labels = self.values[:, start:end], self.labels[start:end]
        groups = {name: cells[start:end] for name, cells in self.groups.items()}
        lines = self.lines[start:end]
        return replace(self, lines=lines, values=values, labels=labels, groups=groups)


def read_all(
    root: Path, reading: Reading, say: Say
) -> tuple[list[Recording], list[str], str | None]:
    """The recordings of a file, or of all below a folder, their channels, and how numbers are
    written where they may be so otherwise."""
    files = csv_files(root) if root.is_dir() else [root]
    found: list[Recording] = []
    channels: list[str] = []
    notes: dict[str, None] = {}
    above = root if root.is_dir() else root.parent
    decimal: str | None = None
    tables = read_each(f"data.path: {root}", files, reading)
    for file, table in zip(files, tables, strict=True):
        place = Path(composed(str(file.relative_to(above))))
        decimal = decimal or table.decimal
        own = told_by(table, place, reading) if reading.lenient else reading
        names = channel_names(table, own)
        notes |= dict.fromkeys((*table.notes, *clock_notes(table, names, own)))
        if channels and names != channels:
            raise other_channels(root, (place, names), (files[0].relative_to(above), channels))
        channels = names
        check_sites(table, place, own)
        found += cut_at_changes(table, place, channels, own)
    for text in [*notes][:MOST_NOTES]:
        say(text)
    return found, channels, decimal


def told_by(table: Table, place: Path, reading: Reading) -> Reading:
    """The reading less the site and the session that a recording does not tell."""
    site = reading.site if tells_site(table, place, reading.site) else None
    session = reading.split_by if reading.split_by in table.cells else None
    return replace(reading, site=site, split_by=session)


def tells_site(table: Table, place: Path, rule: str | None) -> bool:
    """Whether a column of a recording, or its name, tells its site."""
    try:
        return rule is not None and (rule in table.cells or bool(re.search(rule, str(place))))
    except re.error:  # the name of a column, which is no pattern
        return False


def other_channels(
    root: Path, one: tuple[Path, list[str]], first: tuple[Path, list[str]]
) -> UserError:
    """A sentence about two files whose channels are not the same."""
    (place, names), (before, channels) = one, first
    same = sorted(names) == sorted(channels)
    hint = "; data.columns names them in one order" if same else ""
    return UserError(
        f"data.path: {root}: {place} has the channels {', '.join(names)}, and {before} "
        f"{', '.join(channels)}{hint}"
    )


def scattered_notes(found: Sequence[Recording]) -> list[str]:
    """Files in which rows of several sites are mixed."""
    mixed: dict[str, list[Recording]] = {}
    for recording in found:
        if recording.scattered > 1:
            mixed.setdefault(recording.file, []).append(recording)
    notes = []
    for file, own in mixed.items():
        names = list(dict.fromkeys(str(r.session if r.site is None else r.site) for r in own))
        told = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        places = sum(recording.scattered for recording in own)
        notes.append(
            f"{file}: the rows of {told} are scattered over {places} places, and are put together "
            "in their order; sort the file if that is not the order of time, and name several "
            "recordings of one in data.split_by"
        )
    return notes[:MOST_NOTES]


def csv_files(root: Path) -> list[Path]:
    """The recordings below a folder, in one fixed order."""
    found = sorted(Path(folder) / name for folder, names in walk(root) for name in names)
    files = [f for f in found if ending(f) in ENDINGS]
    if not files:
        raise UserError(f"data.path: {root} holds no recordings ({', '.join(ENDINGS)})")
    return files


def channel_names(table: Table, reading: Reading) -> list[str]:
    """The columns that are channels: those named, or all that are nothing else."""
    taken = {*reading.targets, reading.site, reading.split_by, *reading.groups, *reading.ignore}
    rest = [n for n in table.names if n not in taken and not is_clock(n)]
    names = list(reading.columns or rest)
    named = {"data.target": reading.targets, "data.columns": names, "data.groups": reading.groups}
    named |= {"data.ignore": reading.ignore}
    named |= {"data.split_by": [reading.split_by] if reading.split_by else []}
    for key, wanted in named.items():
        for name in wanted:
            if name not in table.cells:
                hint = nearest(name, table.names)
                raise UserError(f"{key}: {table.where} has no column {name!r}; {hint}")
    if not names:
        raise UserError(f"{table.where} has no columns beside the target and the site")
    return names


def cut_at_changes(
    table: Table, place: Path, channels: Sequence[str], reading: Reading
) -> Iterator[Recording]:
    """The recordings of a file: where the site or `data.split_by` changes, another one begins.

    Rows of one that are scattered over the file, in parts that are shorter than a window, are put
    together.
    """
    if not table.rows:
        raise UserError(f"{table.where} holds no rows")
    labels = labels_of(table, place, reading)
    columns = [
        numeric(table, name, np.isin(table.cells[name], reading.missing_values), "data.ignore")
        for name in channels
    ]
    values = np.stack(columns).astype(np.float32)
    sites = sites_of(table, place, reading)
    sessions = None if reading.split_by is None else table.cells[reading.split_by]
    keys = [c for c in (sites, sessions) if c is not None]
    for parts in together(keys, table.rows, reading.window or 1):
        rows = np.concatenate(parts)
        yield Recording(
            str(place),
            table.lines[rows],
            None if sites is None else str(sites[rows[0]]),
            values[:, rows],
            labels[rows],
            None if sessions is None else str(sessions[rows[0]]),
            {name: table.cells[name][rows] for name in reading.groups},
            frozenset(n for n, c in zip(channels, columns, strict=True) if steady(c[rows])),
            len(parts),
        )


def together(keys: Sequence[Cells], count: int, window: int) -> list[list[NDArray[np.int64]]]:
    """The rows of each recording, in their order: one part or, of scattered ones, several."""
    changed = np.zeros(count - 1, bool)
    for key in keys:
        changed |= key[1:] != key[:-1]
    owned: dict[tuple[str, ...], list[NDArray[np.int64]]] = {}
    for part in np.split(np.arange(count), np.flatnonzero(changed) + 1):
        owned.setdefault(tuple(str(key[part[0]]) for key in keys), []).append(part)
    found: list[list[NDArray[np.int64]]] = []
    for parts in owned.values():
        scattered = sum(map(len, parts)) < window * len(parts)
        found += [parts] if scattered else [[part] for part in parts]
    return sorted(found, key=lambda parts: int(parts[0][0]))


def labels_of(table: Table, place: Path, reading: Reading) -> Cells:
    """The label of each row: of the target column, or the folder that the file lies in."""
    if len(reading.targets) > 1:
        raise UserError("data.target: windows of a recording have one target column")
    if reading.targets:
        check_positive(table, reading)
        return table.cells[reading.targets[0]]
    if len(place.parts) < 2:
        raise UserError(
            f"data.target is missing: {table.where} lies in no folder of a class, so a column must "
            f"tell; it has {', '.join(table.names[:12])}"
        )
    return np.full(table.rows, place.parts[-2])


def check_positive(table: Table, reading: Reading) -> None:
    """Refuse rows that are nearly `data.positive`, which a window's commonest value would hide."""
    valued = reading.positive is not None and comparison(reading.positive) is None
    if valued and find(reading.task).targets != "number":
        check_spelling(table, reading.targets[0], str(reading.positive))


def sites_of(table: Table, place: Path, reading: Reading) -> Cells | None:
    """The site of each row: a column, a pattern's group in the file's name, or the first folder."""
    rule = reading.site
    if rule is not None and rule in table.cells:
        return table.cells[rule]
    if rule is not None:
        try:
            match = re.search(rule, str(place))
        except re.error as error:
            raise UserError(f"data.site is {rule!r}, which is no pattern ({error})") from None
        if match is None:
            raise UserError(f"data.site: {place} has no column and no part {rule!r}")
        return np.full(table.rows, (match[1] if match.re.groups else match[0]) or "")
    folders = len(place.parts) - 1 - (0 if reading.targets else 1)
    return np.full(table.rows, place.parts[0]) if folders > 0 else None


def check_sites(table: Table, place: Path, reading: Reading) -> None:
    """Refuse a row that has a label and names no site, where `data.site` says how it does."""
    sites = sites_of(table, place, reading) if reading.site is not None else None
    if sites is None or not table.rows:
        return
    labelled = ~np.isin(labels_of(table, place, reading), reading.missing_values)
    absent = np.isin(sites, reading.missing_values) & labelled
    refuse_unnamed(absent, table.where, table.place, reading.site)
