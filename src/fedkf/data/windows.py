"""Windows: so many rows of a recording that follow each other are a sample.

The class of a window is the commonest value of the target column in it or, without one, the folder
that the file lies in. Windows of one recording never train and test both, unless it is the only
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import in_words, memory, shown
from fedkf.core.objective import find
from fedkf.data.cells import Cells
from fedkf.data.clocks import steady_notes
from fedkf.data.groups import with_groups
from fedkf.data.notes import lumped_note, unmeasured_channels
from fedkf.data.outcomes import targets_of
from fedkf.data.owners import owned_by_name
from fedkf.data.reading import Reading
from fedkf.data.recordings import Recording, read_all, scattered_notes
from fedkf.data.source import Say, Source
from fedkf.data.tabular import Table

PIECE, SHARES = 10, 5
"""At most so many windows of a piece, where a site's only recording is cut up to be divided; one
that is the only one of its class gives at least so many pieces, if it is long enough."""


def windowed(root: Path, reading: Reading, say: Say) -> Source:
    """The windows of all recordings in a file, or below a folder."""
    where = f"data.path: {root}"
    window, stride = reading.window, reading.stride or reading.window
    if window is None or stride is None:
        raise UserError("data.window is missing: how many rows of a recording make one sample")
    found, channels, decimal = read_all(root, reading, say)
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
    return replace(source, channels=channels, decimal=decimal)


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
    return owned_by_name(source, np.array([str(site) for site in sites]), where)


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
