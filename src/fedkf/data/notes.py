"""What a practitioner should know of samples that came from files, in sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.limits import shown
from fedkf.core.objective import find
from fedkf.data.cells import Cells, as_number
from fedkf.data.files import some
from fedkf.data.reading import MISSING_VALUES, SPELLINGS, comparison
from fedkf.data.source import Source

if TYPE_CHECKING:
    from fedkf.data.columns import Layout
    from fedkf.data.reading import Reading
    from fedkf.data.tabular import Table

FEW_ROWS = 5
"""A site with fewer rows can hardly train, and its sums would be its rows."""


PLAIN = (["0", "1"], ["false", "true"], ["no", "yes"], ["n", "y"], ["f", "t"])
"""Pairs of which nobody asks which one is the positive."""
NUMBER = re.compile(r"(.*[^a-z])?(p?id|nr|no|number|key|index|mrn|case|subject|patient)", re.I)
"""What columns are called that say who somebody is."""
LISTED = 5
"""Notes of a kind; more are counted."""
LEAST_NUMBERED = 20
"""With fewer rows any column may have another whole number in each."""
MOST_KINDS = 4
"""Values that are named one by one where they count as the same."""


def table_notes(source: Source) -> list[str]:
    """Columns that say nothing, sites that hold hardly anything, rows that two sites hold."""
    found = (constant_columns, unmeasured_columns, small_sites, shared_rows)
    return [text for notes in found for text in notes(source)]


def column_notes(found: Table, reading: Reading, layout: Layout) -> list[str]:
    """Inputs that some files lack, and that look like numbers of people rather than of anything."""
    notes = [
        f"column {name}: {lacks} has none, so that it counts as missing there"
        for name, (lacks, _) in found.absent.items()
        if name in layout.columns
    ]
    if reading.columns is not None:
        return notes
    numbers = [name for name in layout.columns if name not in layout.categories]
    return notes + [
        f"column {name}: another whole number in every row, as numbers of people are, and it is an "
        "input; data.ignore leaves it out"
        for name in numbers
        if numbered(name, found.cells[name])
    ]


def code_notes(found: Table, reading: Reading) -> list[str]:
    """What a configuration lists as standing for nothing measured, and no cell holds."""
    listed = [v for v in reading.missing_values if v not in (*MISSING_VALUES, *SPELLINGS)]
    if reading.lenient or not listed:  # new files may well have none of the old ones' codes
        return []
    columns = [cells for name, cells in found.cells.items() if not reading.unused(name)]
    never = [shown(value) for value in listed if not any((c == value).any() for c in columns)]
    what = "is" if len(never) == 1 else "are"
    return [f"data.missing_values: {some(never)} {what} in no column"] if never else []


def numbered(name: str, cells: Cells) -> bool:
    """Whether cells count rows or people: whole numbers, none twice, in order or so called."""
    if len(cells) < LEAST_NUMBERED or not all(str(cell).isdigit() for cell in cells):
        return False
    values = [int(str(cell)) for cell in cells]
    distinct = len(set(values)) == len(values)
    return distinct and (bool(NUMBER.fullmatch(name)) or values == sorted(values))


def positive_note(reading: Reading, class_names: Sequence[str]) -> list[str]:
    """Which of two classes counts as the positive one, where nothing says so."""
    rule, own = reading.positive, reading.class_names
    if rule is not None and own is not None and rule not in own and len(class_names) == 2:
        return [
            f"{reading.targets[-1]}: {rule!r} is called {class_names[1]!r}, and everything else "
            f"{class_names[0]!r} (data.class_names)"
        ]
    given = rule is not None or own is not None
    if given or find(reading.task).targets != "two classes":
        return []
    if [name.lower() for name in class_names] in PLAIN:
        return []
    return [
        f"{reading.targets[0]} {class_names[1]!r} counts as positive, {class_names[0]!r} as "
        "negative; data.positive names another"
    ]


def lumped_note(
    table: Table, reading: Reading, labels: NDArray[Any], class_names: Sequence[str]
) -> list[str]:
    """Which values count as negative, where `data.positive` is one value and several are not it."""
    if reading.positive is None or comparison(reading.positive) is not None:
        return []
    if find(reading.task).targets == "number":
        return []
    timed = labels.ndim == 2
    hits = labels[:, 1] > 0 if timed else labels == 1
    kinds = Counter(kind_of(str(cell)) for cell in table.cells[reading.targets[-1]][~hits])
    if len(kinds) < 2:
        return []
    unit, most = table.unit, kinds.most_common(MOST_KINDS)
    told = [f"{shown(kind)} ({n} {unit}{'s' if n > 1 else ''})" for kind, n in most]
    if len(kinds) > len(most):
        told.append(f"{len(kinds) - len(most)} more")
    what = "no event" if timed else shown(class_names[0])
    return [
        f"{reading.targets[-1]}: {', '.join(told[:-1])} and {told[-1]} count as {what} "
        f"(data.positive is {reading.positive!r})"
    ]


def kind_of(cell: str) -> str:
    """A value as it is counted: 0 and 0.0 are one."""
    number = as_number(cell)
    return repr(number).removesuffix(".0") if math.isfinite(number) else cell


def constant_columns(source: Source) -> list[str]:
    inputs, layout = source.inputs, source.layout
    names = layout.input_names if layout else [str(k) for k in range(inputs.shape[1])]
    low, high = (f(np.where(np.isnan(inputs), e, inputs), axis=0) for f, e in EXTREMES)
    flat = [name for name, a, b in zip(names, low, high, strict=True) if a >= b]
    if not flat:
        return []
    one = len(flat) == 1
    return [
        f"{'column' if one else 'columns'} {', '.join(flat[:5])}{' …' if len(flat) > 5 else ''}: "
        "the same value in all rows, which tells a model nothing"
    ]


def constant_channels(source: Source) -> list[str]:
    """Channels of signals that never change."""
    names = source.channels or [str(k) for k in range(source.inputs.shape[1])]
    low, high = (end(source.inputs, axis=(0, 2)) for end in (np.fmin.reduce, np.fmax.reduce))
    same = [name for name, alike in zip(names, low == high, strict=True) if alike]
    told = f"{', '.join(same[:5])}{' …' if len(same) > 5 else ''}"
    what = "channel" if len(same) == 1 else "channels"
    return (
        [f"{what} {told}: the same value everywhere, which tells a model nothing"] if same else []
    )


def unmeasured_columns(source: Source) -> list[str]:
    """Columns without any value at a site, where others have some."""
    if source.owners is None or source.layout is None:
        return []
    return unmeasured(source, ~np.isnan(source.inputs), source.layout.input_names, "column")


def unmeasured_channels(source: Source, names: Sequence[str]) -> list[str]:
    """Channels of signals without any value at all, or at a site where others have some."""
    there = ~np.isnan(source.inputs).all(-1)
    never = [name for k, name in enumerate(names) if not there[:, k].any()]
    told = f"{', '.join(never[:5])}{' …' if len(never) > 5 else ''}"
    what = "channel" if len(never) == 1 else "channels"
    notes = [f"{what} {told}: never measured, which tells a model nothing"] if never else []
    return notes + unmeasured(source, there, names, "channel")


def unmeasured(
    source: Source, there: NDArray[np.bool_], names: Sequence[str], what: str
) -> list[str]:
    """Inputs without any value at a site, by which samples have one."""
    if source.owners is None:
        return []
    notes = []
    for k, name in enumerate(names):
        held = np.bincount(source.owners[there[:, k]], minlength=len(source.owner_names)) > 0
        if held.any() and not held.all():
            absent = [site for site, has in zip(source.owner_names, held, strict=True) if not has]
            sites = f"{', '.join(absent[:5])}{' …' if len(absent) > 5 else ''}"
            notes.append(
                f"{what} {name}: never measured at {sites}, so that models get a stand-in there"
            )
    left = len(notes) - LISTED
    rest = [f"and {left} more {what}s that are never measured at some site"] if left > 0 else []
    return notes[:LISTED] + rest


EXTREMES = ((np.min, np.inf), (np.max, -np.inf))


def alike_notes(source: Source) -> list[str]:
    """Sites and classes whose names differ in capital letters or spaces alone."""
    notes = []
    for what, names in (("sites", source.owner_names), ("classes", source.class_names)):
        spelled: dict[str, list[str]] = {}
        for name in names:
            spelled.setdefault("".join(name.split()).casefold(), []).append(shown(name))
        alike = [f"{', '.join(own[:-1])} and {own[-1]}" for own in spelled.values() if len(own) > 1]
        notes += [
            f"{what} {told} differ in capital letters or spaces alone; if they are one, write them "
            "alike"
            for told in alike[:LISTED]
        ]
    return notes


def idle_notes(source: Source, reading: Reading) -> list[str]:
    """Settings that do nothing for samples of this kind, or for what is told of them."""
    notes = []
    if reading.image_size is not None and source.measured:
        notes.append("data.image_size is for images; there are none, and it does nothing")
    windowed = reading.window is not None or reading.stride is not None
    if windowed and source.inputs.ndim != 3:  # of arrays of signals it is told where they are read
        notes.append("data.window and data.stride are for recordings; here they do nothing")
    if reading.positive is not None and find(source.task).targets == "number":
        notes.append(
            f"data.positive is for classes and events; data.task is {source.task}, and it does "
            "nothing"
        )
    return notes


def small_sites(source: Source) -> list[str]:
    if source.owners is None:
        return []
    counts = np.bincount(source.owners, minlength=len(source.owner_names))
    few = [
        f"{name} ({count})"
        for name, count in zip(source.owner_names, counts.tolist(), strict=True)
        if count < FEW_ROWS
    ]
    said = "next to nothing to train on, and a number from so few tests is chance"
    return [f"fewer than {FEW_ROWS} rows: {', '.join(few)}; {said}"] if few else []


def shared_rows(source: Source) -> list[str]:
    """Rows, with their targets, that are the same at two sites."""
    if source.owners is None or not len(source.labels):
        return []
    targets = source.labels.reshape(len(source.labels), -1)
    rows = np.concatenate([source.inputs.reshape(len(targets), -1), targets], axis=1)
    rows = np.ascontiguousarray(rows.astype(np.float32))
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, inverse = np.unique(keys, return_inverse=True)
    pairs = np.unique(np.stack([inverse, source.owners], axis=1), axis=0)
    holders = np.bincount(pairs[:, 0])
    if not (holders > 1).any():
        return []
    first = int(np.flatnonzero(holders > 1)[0])
    one, two, *_ = (source.owner_names[k] for k in pairs[pairs[:, 0] == first, 1])
    count = int((holders > 1).sum())
    are = "1 row is" if count == 1 else f"{count} rows are"
    return [
        f"{are} the same at several sites (such as {one} and {two}): "
        "if they are the same people, one site trains on what another tests with"
    ]
