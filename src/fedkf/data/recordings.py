"""Recordings: a CSV file has a row for each moment; windows of rows are the samples.

The class of a window is the commonest value of the target column in it or, without one, the folder
that the file lies in. Windows of one recording never train and test both, unless it is the only
one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest
from fedkf.core.limits import in_words, memory, proper_text, shown
from fedkf.core.objective import find
from fedkf.data.cells import Cells, ending
from fedkf.data.clocks import clock_notes, is_clock, steady, steady_notes
from fedkf.data.columns import numeric
from fedkf.data.folder import walk
from fedkf.data.groups import with_groups
from fedkf.data.notes import lumped_note, unmeasured_channels
from fedkf.data.outcomes import check_spelling, comparison, targets_of
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.tabular import Table, read_csv

PIECE, SHARES = 10, 5
"""At most so many windows of a piece, where a site's only recording is cut up to be divided; one
that is the only one of its class gives at least so many pieces, if it is long enough."""
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


def recordings(root: Path, reading: Reading, say: Say) -> Source:
    """The windows of all recordings in a file, or below a folder."""
    where = f"data.path: {root}"
    window, stride = reading.window, reading.stride or reading.window
    if window is None or stride is None:
        raise UserError("data.window is missing: how many rows of a recording make one sample")
    found, channels = read_all(root, reading, say)
    for text in scattered_notes(found):
        say(text)
    short = [r for r in found if r.length < window]
    if len(short) == len(found):
        longest = max((r.length for r in found), default=0)
        raise UserError(
            f"data.window is {window}, but the longest recording in {root} has {longest} rows"
        )
    if short:
        names = sorted({r.file for r in short})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        are = "1 recording is" if len(short) == 1 else f"{len(short)} recordings are"
        say(f"{are} shorter than data.window ({window}) and left out: {', '.join(names[:3])}{more}")
        left = {r.site for r in found if r.length >= window}
        if gone := sorted({str(r.site) for r in short if r.site not in left}):
            say(f"no recording is left of {', '.join(gone[:5])}{' …' if len(gone) > 5 else ''}")
    found = [r for r in found if r.length >= window]
    if reading.columns is None:
        for text in steady_notes([recording.steady for recording in found], channels):
            say(text)
    source = windows(divisible(found, window, stride, say), reading, window, stride, where, say)
    for text in unmeasured_channels(source, channels):
        say(text)
    if source.owners is None and (files := len({recording.file for recording in found})) > 1:
        say(
            f"nothing says whose the {files} recordings are; data.site names a column, or a "
            r"pattern of the files' names such as 'p\d+'"
        )
    return replace(source, channels=channels)


def read_all(root: Path, reading: Reading, say: Say) -> tuple[list[Recording], list[str]]:
    """The recordings of a file, or of all below a folder, and their channels."""
    files = csv_files(root) if root.is_dir() else [root]
    found: list[Recording] = []
    channels: list[str] = []
    notes: dict[str, None] = {}
    above = root if root.is_dir() else root.parent
    for file in files:
        table = read_csv(file)
        names = channel_names(table, reading)
        notes |= dict.fromkeys((*table.notes, *clock_notes(table, names, reading)))
        place = file.relative_to(above)
        if channels and names != channels:
            raise other_channels(root, (place, names), (files[0].relative_to(above), channels))
        channels = names
        found += cut_at_changes(table, place, channels, reading)
    for text in [*notes][:MOST_NOTES]:
        say(text)
    return found, channels


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
    files = [f for f in found if ending(f) in ENDINGS and not f.name.startswith(".")]
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
        numeric(table, name, np.isin(table.cells[name], reading.missing_values))
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
        return np.full(table.rows, match[1] if match.re.groups else match[0])
    folders = len(place.parts) - 1 - (0 if reading.targets else 1)
    return np.full(table.rows, place.parts[0]) if folders > 0 else None


def divisible(found: list[Recording], window: int, stride: int, say: Say) -> list[Recording]:
    """The recordings, but for those of which a site has no other: their pieces.

    So that some can test: of a site that has one recording only, and of a class that only one of
    them is of. Where `data.split_by` says what must stay together, nothing is cut.
    """
    lone, rare = set(), set()
    for own in by_site(found):
        kinds = {k: np.unique(found[k].labels) for k in own}
        common = [str(kinds[k][0]) for k in own]
        if len(own) == 1:
            lone.add(own[0])
        elif all(len(kind) == 1 for kind in kinds.values()):
            rare |= {k for k, kind in zip(own, common, strict=True) if common.count(kind) == 1}
    pieces: list[Recording] = []
    for k, recording in enumerate(found):
        count = (recording.length - window) // stride + 1
        most = PIECE if k in lone else max(1, min(PIECE, count // SHARES))
        cut = k in lone | rare and recording.session is None
        parts = pieces_of(recording, window, stride, most) if cut else [recording]
        if k in rare and len(parts) < 2:  # nothing is won by it
            rare.discard(k)
            parts = [recording]
        pieces += parts
    uncut = any(recording.session is not None for recording in found)
    if lone and not uncut:
        have = "1 site has" if len(lone) == 1 else f"{len(lone)} sites have"
        say(
            f"{have} a single recording, which is cut where its label changes and "
            f"after at most {PIECE} windows; whole pieces train or test"
        )
    if rare and not uncut:
        say(
            f"{len(rare)} recordings are the only ones of their class at their site, and are cut "
            "into pieces, of which whole ones train or test; pieces of one recording are alike, "
            "so that results look better than with another day's"
        )
    return pieces


def by_site(found: Sequence[Recording]) -> list[list[int]]:
    """The places of each site's recordings."""
    owned: dict[str | None, list[int]] = {}
    for k, recording in enumerate(found):
        owned.setdefault(recording.site, []).append(k)
    return list(owned.values())


def pieces_of(recording: Recording, window: int, stride: int, most: int) -> list[Recording]:
    """Pieces that end where the label changes, or after so many windows; no window is in two.

    What lies between two changes is cut into pieces of about one length.
    """
    changes = np.flatnonzero(recording.labels[1:] != recording.labels[:-1]) + 1
    starts, own = [0, *changes.tolist()], list[Recording]()
    for start, end in zip(starts, [*starts[1:], recording.length], strict=True):
        count = max(1, (end - start - window) // stride + 1)
        each = math.ceil(count / math.ceil(count / most))
        length = window + (each - 1) * stride
        own += [recording.part(at, min(at + length, end)) for at in range(start, end, length)]
    return [piece for piece in own if piece.length >= window] or [recording]


def windows(
    pieces: Sequence[Recording], reading: Reading, window: int, stride: int, where: str, say: Say
) -> Source:
    """The windows of all pieces as samples; each piece is a unit of the split."""
    places = [
        (k, at) for k, p in enumerate(pieces) for at in range(0, p.length - window + 1, stride)
    ]
    size = 4 * len(places) * pieces[0].values.shape[0] * window
    if size > memory():
        raise UserError(f"{where}: its windows take {in_words(size)}; a larger data.stride helps")
    numbers = find(reading.task).targets == "number"
    labels = [label_of(pieces[k].labels[at : at + window], numbers, reading) for k, at in places]
    known = [k for k, label in enumerate(labels) if label not in reading.missing_values]
    if not known:
        raise UserError(f"{where}: no window has a target")
    places = [places[k] for k in known]
    name = reading.targets[0] if reading.targets else "folder"
    table = Table(
        where,
        {name: np.array([labels[k] for k in known])},
        np.array([pieces[k].file for k, _ in places]),
        np.array([pieces[k].lines[at] for k, at in places], dtype=np.int64),
        unit="window",
    )
    own = replace(reading, target=name)
    outcome, class_names = targets_of(table, own)
    for text in lumped_note(table, own, outcome, class_names):
        say(text)
    inputs = np.stack([pieces[k].values[:, at : at + window] for k, at in places])
    source = Source(inputs, outcome, class_names, task=reading.task, measured=True)
    source = replace(source, units=units_of(pieces, places), units_by=reading.split_by)
    known_groups = {
        name: np.array(
            [label_of(pieces[k].groups[name][at : at + window], False, reading) for k, at in places]
        )
        for name in reading.groups
    }
    source = with_groups(source, known_groups, reading.groups, reading.missing_values)
    sites = [pieces[k].site for k, _ in places]
    if None in sites:
        return source
    names, owners = np.unique([str(site) for site in sites], return_inverse=True)
    if improper := [str(n) for n in names if not proper_text(str(n))]:
        raise UserError(f"{where}: the site {shown(improper[0])} cannot be shown")
    return replace(source, owners=owners.astype(np.int64), owner_names=[str(n) for n in names])


def units_of(pieces: Sequence[Recording], places: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """What trains or tests as one: what `data.split_by` says, or a piece."""
    if pieces[0].session is None:
        return np.array([k for k, _ in places], dtype=np.int64)
    sessions = [str(pieces[k].session) for k, _ in places]
    return np.unique(sessions, return_inverse=True)[1].astype(np.int64)


def label_of(cells: Cells, numbers: bool, reading: Reading) -> str:
    """What a window's target is: the commonest of its rows', or their mean where it is a number."""
    there = cells[~np.isin(cells, reading.missing_values)]
    if not len(there):
        return str(reading.missing_values[0]) if reading.missing_values else ""
    if numbers:
        try:
            return repr(float(np.mean(there.astype(np.float64))))
        except ValueError:
            raise UserError(
                f"data.task is {reading.task}, but the target holds {shown(str(there[0]))}, which "
                "is no number; for classes set data.task to classification"
            ) from None
    values, counts = np.unique(there, return_counts=True)
    return str(values[counts.argmax()])
