"""Samples from a table: a row is a sample, columns are inputs, one is the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.cells import Cells, stem
from fedkf.data.columns import Layout, inputs_of, layout_of
from fedkf.data.groups import with_groups
from fedkf.data.notes import code_notes, column_notes, lumped_note, positive_note, table_notes
from fedkf.data.outcomes import check_target, targets_of
from fedkf.data.owners import owned_by_name, refuse_unnamed
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.tabular import Table, read_table


def table(path: str, reading: Reading, say: Say = lambda text: None) -> Source:
    """A CSV or Parquet file with a column that names the site, or a folder with a file for each.

    Without either the rows are pooled. Rows without a target are left out, and their number told.
    """
    return from_table(read_table(path, reading), reading, say)


def from_table(found: Table, reading: Reading, say: Say = lambda text: None) -> Source:
    """The samples of a table that is read."""
    refuse_twice(found, reading)
    check_target(reading, found)
    layout = layout_of(found, reading)
    for text in (*found.notes, *code_notes(found, reading), *column_notes(found, reading, layout)):
        say(text)
    found = usable_rows(found, reading, layout, say)
    labels, class_names = targets_of(found, reading)
    for text in (
        *positive_note(reading, class_names),
        *lumped_note(found, reading, labels, class_names),
    ):
        say(text)
    inputs = inputs_of(found, layout, reading)
    source = Source(inputs, labels, class_names, task=reading.task, measured=True, layout=layout)
    source = replace(source, decimal=found.decimal)
    source = owned(source, found, reading)
    if reading.split_by is not None:
        units = np.unique(found.cells[reading.split_by], return_inverse=True)[1]
        source = replace(source, units=units.astype(np.int64), units_by=reading.split_by)
    known = {name: found.cells[name] for name in reading.groups}
    source = with_groups(source, known, reading.groups, reading.missing_values)
    for text in table_notes(source):
        say(text)
    return source


def refuse_twice(found: Table, reading: Reading) -> None:
    """Two files of one name would be one site, or one site's file twice."""
    if reading.site is not None or not found.sited:
        return
    files: dict[str, str] = {}
    for name in np.unique(found.files).tolist():
        if (other := files.setdefault(stem(name), name)) != name:
            raise UserError(
                f"{found.where}: {other} and {name} are two files for one site, {stem(name)}; "
                "rename or remove one"
            )


def usable_rows(found: Table, reading: Reading, layout: Layout, say: Say) -> Table:
    """The rows with a target and, where `data.missing` is drop, with all inputs."""
    lacking = missing_in(found, reading.targets, reading)
    if lacking.all():
        raise UserError(f"{found.where}: no row has a target ({', '.join(reading.targets)})")
    if lacking.any():
        say(f"{int(lacking.sum())} of {found.rows} rows have no target and are left out")
    if reading.missing == "drop":
        partly = missing_in(found, layout.columns, reading) & ~lacking
        if (partly | lacking).all():
            raise UserError(
                f"{found.where}: every row lacks a value somewhere, and data.missing is drop; "
                "indicator or mean keeps them"
            )
        if partly.any():
            say(f"{int(partly.sum())} of {found.rows} rows lack a value and are left out")
        lacking |= partly
    if not lacking.any():
        return found
    if (sites := sites_of(found, reading)) is not None:
        gone = sorted(set(sites.tolist()) - set(sites[~lacking].tolist()))
        if gone:
            say(f"no row is left of {', '.join(gone[:5])}{' …' if len(gone) > 5 else ''}")
    return found.take(~lacking)


def sites_of(found: Table, reading: Reading) -> Cells | None:
    """The site of each row, where the table says it: in a column, or by its file."""
    if reading.site is not None:
        return found.cells[reading.site]
    if found.sited:
        return np.array([stem(str(name)) for name in found.files.tolist()], dtype=np.str_)
    return None


def missing_in(found: Table, columns: Sequence[str], reading: Reading) -> NDArray[np.bool_]:
    """Which rows lack a value in one of these columns."""
    result = np.zeros(found.rows, bool)
    for name in columns:
        result |= np.isin(found.cells[name], reading.missing_values)
    return result


def owned(source: Source, found: Table, reading: Reading) -> Source:
    """The source with the site of each row, where the table says it."""
    cells = sites_of(found, reading)
    if cells is None:
        return source
    if reading.site is not None:
        absent = np.isin(cells, reading.missing_values)
        refuse_unnamed(absent, found.where, found.place, reading.site)
    return owned_by_name(source, cells, found.where)
