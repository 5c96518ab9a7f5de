"""Outcomes: what is predicted, from the cells of a table: classes, a number, a time and event."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import proper_text, shown
from fedkf.core.objective import find
from fedkf.data.cells import Cells, as_number, numbers
from fedkf.data.columns import canonical, categories_of
from fedkf.data.reading import Reading, comparison
from fedkf.data.tabular import Table
from fedkf.data.targets import absurd

MOST_CLASSES = 1000
HAPPENED, NOT = ("true", "yes", "t", "y"), ("false", "no", "f", "n")
"""How an event is told in words."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


def check_target(reading: Reading, table: Table) -> None:
    """Refuse a configuration that does not say what is predicted, or too much."""
    if not reading.targets:
        raise UserError(
            "data.target is missing: a table needs the name of the column that is predicted; "
            f"{table.where} has {', '.join(table.names[:12])}"
        )
    wanted = 2 if find(reading.task).targets == "time" else 1
    if len(reading.targets) != wanted:
        what = "two columns, [time, event]" if wanted == 2 else "one column"
        raise UserError(
            f"data.target is {shown(reading.target)}; {reading.task} is about {what} (data.task)"
        )


def targets_of(table: Table, reading: Reading) -> tuple[NDArray[Any], list[str]]:
    """The labels as the task has them, and the names of the classes (none for numbers)."""
    kind = find(reading.task).targets
    if kind == "number":
        return measured(table, reading.targets[0]).astype(np.float32), []
    if kind == "time":
        time = measured(table, reading.targets[0])
        event = events(table, reading)
        check_survival(table, reading, time)
        return np.stack([time, event], axis=1).astype(np.float32), []
    if kind == "two classes" or reading.positive is not None:
        labels, names = binary(table, reading)
    else:
        labels, names = classes(table, reading)
    if improper := [name for name in names if not proper_text(name)]:
        raise UserError(f"{table.where}: the class {shown(improper[0])} cannot be shown")
    if len(np.unique(labels)) < reading.least_classes:
        raise UserError(
            f"{table.where}: all rows have the same target {reading.targets[0]!r}; a classifier "
            "needs at least two classes"
        )
    return labels, names


def number(table: Table, name: str) -> NDArray[np.float64]:
    """A target of numbers."""
    values, mistaken = numbers(table.cells[name])
    if mistaken.any():
        row = int(np.flatnonzero(mistaken)[0])
        cell = str(table.cells[name][row])
        infinite = math.isinf(as_number(cell))
        raise UserError(
            f"{table.where}: the target {name!r} is {shown(cell)} in {table.place(row)}, which is "
            + (
                "infinite; correct it, or add it to data.missing_values"
                if infinite
                else "no number; for classes set data.task to classification"
            )
        )
    return values


def measured(table: Table, name: str) -> NDArray[np.float64]:
    """A target of numbers, none of which is absurdly large."""
    values = number(table, name)
    if (odd := absurd(values)).any():
        row, more = int(np.flatnonzero(odd)[0]), int(odd.sum()) - 1
        raise UserError(
            f"{table.where}: the target {name!r} is {shown(str(table.cells[name][row]))} in "
            f"{table.place(row)}{f' (and {more} more)' if more else ''}, which is absurdly large "
            "beside the others; correct it, or add it to data.missing_values"
        )
    return values


def events(table: Table, reading: Reading) -> NDArray[np.float64]:
    """1 where the event happened: where `data.positive` says so, or 1, true or yes."""
    name = reading.targets[1]
    if reading.positive is not None:
        return positives(table, name, reading).astype(np.float64)
    words = np.char.lower(table.cells[name])
    happened = np.isin(words, HAPPENED)
    values, mistaken = numbers(np.where(happened, "1", np.where(np.isin(words, NOT), "0", words)))
    odd = mistaken | ~np.isin(values, (0, 1))
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise UserError(
            f"{table.where}: the event {name!r} is {shown(str(table.cells[name][row]))} in "
            f"{table.place(row)}; it is 1, true or yes where it happened and 0, false or no where "
            "it was not seen to (data.target is [time, event]); data.positive names another value"
        )
    return values


def check_survival(table: Table, reading: Reading, time: NDArray[np.float64]) -> None:
    if (time < 0).any():
        row = int(np.flatnonzero(time < 0)[0])
        more = int((time < 0).sum()) - 1
        raise UserError(
            f"{table.where}: the time {reading.targets[0]!r} is {time[row]:g} in "
            f"{table.place(row)}{f' (and {more} more)' if more else ''}; times must not be negative"
        )


def classes(table: Table, reading: Reading) -> tuple[NDArray[np.int64], list[str]]:
    """Classes by their names, in the order of data.class_names, or of size or letters."""
    name = reading.targets[0]
    cells = table.cells[name]
    if reading.class_names is None:
        distinct = np.unique(cells)
        if len(distinct) > min(MOST_CLASSES, max(20, len(cells) // 2)):
            raise UserError(
                f"{table.where}: the target {name!r} has {len(distinct)} different values in "
                f"{len(cells)} rows; for a number set data.task to regression"
            )
        names = categories_of(table, name, np.ones(len(cells), bool), asked=True)
    else:
        names = list(reading.class_names)
    return places(table, canonical(cells, names), names), names


def places(table: Table, cells: Cells, names: Sequence[str]) -> NDArray[np.int64]:
    """The place of each cell among the names."""
    unknown = ~np.isin(cells, list(names))
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise UserError(
            f"{table.where}: the target is {shown(str(cells[row]))} in {table.place(row)}, which "
            f"is not in data.class_names ({', '.join(names[:10])})"
        )
    where = {name: k for k, name in enumerate(names)}
    return np.array([where[cell] for cell in cells.tolist()], dtype=np.int64)


def binary(table: Table, reading: Reading) -> tuple[NDArray[np.int64], list[str]]:
    """0 and 1: `data.positive` says which values are 1, or the larger one of two is."""
    name, rule = reading.targets[0], reading.positive
    cells = table.cells[name]
    if rule is None:
        labels, names = classes(table, reading)
        if len(names) > 2:
            raise UserError(
                f"{table.where}: the target {name!r} has {len(names)} different values "
                f"({', '.join(names[:6])}); data.positive says which are positive, such as '>0'"
            )
        return labels, names
    hits = positives(table, name, reading)
    rest = np.unique(cells[~hits])
    other = str(rest[0]) if len(rest) == 1 and str(rest[0]) != rule else f"not {rule}"
    names = list(reading.class_names or (other, rule))
    if len(names) != 2:
        raise UserError(
            f"data.class_names has {len(names)} names; with data.positive there are two, the "
            "negative one first"
        )
    if reading.class_names is not None:
        check_order(table, reading, rest.tolist())
    return hits.astype(np.int64), names


def check_order(table: Table, reading: Reading, others: Sequence[str]) -> None:
    """Refuse two names that say otherwise than `data.positive` which class is which.

    Names of one's own, for codes such as 0 and 1, are in the order of the labels.
    """
    rule, (first, second) = str(reading.positive), list(reading.class_names or ())
    if means(first, rule) or (second in others and means(second, rule) is False):
        raise UserError(
            f"data.class_names is {first}, {second}, but data.positive is {rule!r}; the negative "
            "one comes first"
        )
    odd = comparison(rule) is None and rule not in (first, second) and first not in others
    if odd and not math.isfinite(as_number(rule)) and reading.least_classes > 1:
        raise UserError(
            f"{table.where}: data.class_names is {first}, {second}, but {reading.targets[0]!r} "
            f"holds {', '.join(shown(value) for value in [rule, *others][:6])}; use its own values"
        )


def means(value: str, rule: str) -> bool | None:
    """Whether `data.positive` means a value; None where that has no answer."""
    parts, number = comparison(rule), as_number(value)
    if parts is None:
        return value == rule or number == as_number(rule)
    return bool(COMPARISONS[parts[1]](number, float(parts[2]))) if number == number else None


def positives(table: Table, name: str, reading: Reading) -> NDArray[np.bool_]:
    """Which rows `data.positive` means: those with a value, or such as '>0'."""
    cells, rule = table.cells[name], str(reading.positive)
    parts = comparison(rule)
    hits: NDArray[np.bool_]
    if parts is None:
        check_spelling(table, name, rule)
        hits = canonical(cells, [rule]) == rule
    else:
        try:
            limit = float(parts[2])
        except ValueError:
            raise UserError(f"data.positive is {rule!r}; it is a value, or such as '>0'") from None
        hits = COMPARISONS[parts[1]](number(table, name), limit)
    if not hits.any() and reading.least_classes > 1:  # one site's file may well have none
        values = [shown(str(value)) for value in np.unique(cells)[:6]]
        raise UserError(
            f"{table.where}: data.positive is {rule!r}, but no row has it; {name!r} holds "
            f"{', '.join(values)}"
        )
    return hits


def check_spelling(table: Table, name: str, rule: str) -> None:
    """Refuse values that differ from `data.positive` in capital letters or spaces alone."""
    cells = table.cells[name]
    alike = np.char.lower(np.char.strip(cells)) == rule.strip().lower()
    odd = np.flatnonzero(alike & (canonical(cells, [rule]) != rule))
    if len(odd):
        cell = str(cells[odd[0]])
        count = int((cells == cell).sum())
        raise UserError(
            f"{table.where}: data.positive is {rule!r}, but {name!r} is {shown(cell)} in "
            f"{count} {table.unit}{'s' if count > 1 else ''}, the first in "
            f"{table.place(int(odd[0]))}, which would not count; write both alike"
        )
