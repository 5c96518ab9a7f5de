"""Tables and recordings with something wrong in them: a sentence each, and go on where one can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome

from fedkf.core.errors import UserError
from fedkf.core.limits import memory
from fedkf.data.cells import CHARACTER
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.data.sources import read
from fedkf.data.tabular import check_names

Row = dict[str, str]


def table(path: Path, change: Callable[[int, Row], Row | None], *more: Row) -> Path:
    """Thirty patients at each of three sites, each row changed, or left out where that is None."""
    random, rows = np.random.default_rng(0), []
    for k in range(90):
        site, ill = ("north", "south", "west")[k // 30], str(k % 2)
        row = {"site": site, "age": str(30 + k % 30), "x": f"{random.normal():.3f}", "ill": ill}
        if (changed := change(k, row)) is not None:
            rows.append(changed)
    rows += more
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines))
    return path


def told(path: Path, **reading: object) -> tuple[Source, list[str]]:
    said: list[str] = []
    how = Reading(**{"target": "ill", "site": "site", **reading})  # type: ignore[arg-type]
    return read("table", str(path), how, said.append), said


def test_a_target_that_is_no_column_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", lambda k, row: {n: v for n, v in row.items() if n != "ill"})
    with pytest.raises(UserError, match="has no column 'ill'"):
        told(path)


def test_rows_without_a_target_are_left_out_and_a_site_without_any_is_named(tmp_path: Path) -> None:
    def change(k: int, row: Row) -> Row:
        return {**row, "ill": ""} if row["site"] == "south" else row

    source, said = told(table(tmp_path / "t.csv", change))
    assert source.owner_names == ["north", "west"]
    assert said[:2] == [
        "30 of 90 rows have no target and are left out",
        "no row is left of south",
    ]


def test_text_in_a_column_of_numbers_is_refused_with_its_place(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", lambda k, row: {**row, "age": "old"} if k == 17 else row)
    with pytest.raises(UserError, match=r"'age' holds numbers, but 'old' in t\.csv, line 19"):
        told(path)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("inf", r"'cost' is 'inf' in t\.csv, line 5, which is infinite; correct it"),
        ("-Infinity", r"'cost' is '-Infinity' in t\.csv, line 5, which is infinite"),
        ("1e30", r"'cost' is '1e30' in t\.csv, line 5, which is absurdly large beside the others"),
        ("1e300", r"'cost' is '1e300' in t\.csv, line 5, which is absurdly large"),
        ("dear", r"'cost' is 'dear' in t\.csv, line 5, which is no number; for classes set"),
    ],
)
def test_a_target_that_is_no_sensible_number_is_refused_with_its_place(
    tmp_path: Path, cell: str, sentence: str
) -> None:
    costs = [str(10 * (k % 5)) for k in range(20)]  # those who cost nothing say nothing of the rest
    costs[3] = cell
    lines = [f"{'ab'[k % 2]},{k % 7},{cost}" for k, cost in enumerate(costs)]
    (tmp_path / "t.csv").write_text("\n".join(["site,age,cost", *lines]))
    with pytest.raises(UserError, match=sentence):
        told(tmp_path / "t.csv", task="regression", target="cost")
    source, _ = told(
        tmp_path / "t.csv", task="regression", target="cost", missing_values=["", cell]
    )
    assert len(source.labels) == 19


def test_inputs_of_a_single_category_each_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("w,v,ill\nx,y,0\nx,y,1")
    wrong = r"its inputs \(w, v\) hold a single category each, so that nothing tells rows apart"
    with pytest.raises(UserError, match=wrong):
        told(tmp_path / "t.csv", site=None)


def test_a_constant_column_is_told(tmp_path: Path) -> None:
    _, said = told(table(tmp_path / "t.csv", lambda k, row: {**row, "c": "7"}))
    assert said == ["column c: the same value in all rows, which tells a model nothing"]


def test_a_column_that_a_site_never_measured_is_told(tmp_path: Path) -> None:
    def change(k: int, row: Row) -> Row:
        return {**row, "c": "" if row["site"] == "south" else row["age"]}

    _, said = told(table(tmp_path / "t.csv", change))
    assert said == ["column c: never measured at south, so that models get a stand-in there"]


def test_many_columns_that_a_site_never_measured_are_counted(tmp_path: Path) -> None:
    def change(k: int, row: Row) -> Row:
        south = row["site"] == "south"
        return {**row, **{f"c{n}": "" if south else f"{k + n}.5" for n in range(7)}}

    _, said = told(table(tmp_path / "t.csv", change))
    assert len(said) == 6
    assert said[-1] == "and 2 more columns that are never measured at some site"


def test_a_site_with_three_rows_is_told(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", lambda k, row: row if k < 63 else None)
    (text,) = told(path)[1]
    assert text.startswith("fewer than 5 rows: west (3); next to nothing to train on")


def test_rows_that_two_sites_hold_are_told(tmp_path: Path) -> None:
    row = {"site": "north", "age": "99", "x": "1.5", "ill": "1"}
    path = table(tmp_path / "t.csv", lambda k, r: r, row, {**row, "site": "west"})
    (text,) = told(path)[1]
    assert text.startswith("1 row is the same at several sites (such as north and west)")


def test_a_site_without_a_class_is_told_before_training(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    def change(k: int, row: Row) -> Row:
        return {**row, "ill": "0"} if row["site"] == "south" else row

    path = table(tmp_path / "t.csv", change)
    sets = [
        *("data.source=table", f"data.path={path}", "data.target=ill", "data.site=site"),
        *("algorithm.name=fedavg", "federation.rounds=1", "federation.local_epochs=1"),
    ]
    given = [part for one in sets for part in ("--set", one)]
    text = "south: no 1; a model that always says 0 is right there, so look beyond accuracy"
    code, _, err = cli("run", *given, "--workers", 0, "--out", tmp_path / "run")
    assert code == 0
    assert text in err
    assert f"note: {text}" in cli("partition", *given, "--out", tmp_path / "p").out


def recordings(folder: Path, lengths: dict[str, int]) -> Path:
    for site, length in lengths.items():
        (folder / site).mkdir(parents=True)
        for k in range(4):
            rows = [f"{t},{t % 3},{'walk' if k % 2 else 'sit'}" for t in range(length)]
            (folder / site / f"r{k}.csv").write_text("\n".join(["time,ax,label", *rows]))
    return folder


def test_windows_longer_than_the_recordings_are_refused_or_leave_a_site_out(tmp_path: Path) -> None:
    folder = recordings(tmp_path / "rec", {"a": 40, "b": 5})
    with pytest.raises(UserError, match=r"data\.window is 50, but the longest recording in .* 40"):
        read("signals", str(folder), Reading(target="label", window=50))
    said: list[str] = []
    source = read("signals", str(folder), Reading(target="label", window=20), said.append)
    assert source.owner_names == ["a"]
    assert said[0].startswith("4 recordings are shorter than data.window (20) and left out")
    assert said[1] == "no recording is left of b"


LONG = 130_000
"""Characters of a cell, just below the most that the csv module reads."""


@pytest.fixture(params=["file", "folder"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table with one long text, which takes more than the memory if all rows have its room."""
    count = memory() // (CHARACTER * LONG) + 1
    rows = [f"{'ns'[k % 2]},{k % 7},{k % 3 % 2}," for k in range(count)]
    long = f"n,1,0,{'x' * LONG}"
    if request.param == "file":
        (tmp_path / "all.csv").write_text("\n".join(["site,age,ill,note", long, *rows]))
        return tmp_path / "all.csv"
    (tmp_path / "a.csv").write_text("\n".join(["site,age,ill,note", *rows]))
    (tmp_path / "b.csv").write_text("\n".join(["site,age,ill,note", long]))
    return tmp_path


def test_long_texts_that_memory_has_no_room_for_are_named(notes: Path) -> None:
    sentence = r"the column 'note' has a text of 130,000 characters.* data\.ignore"
    with pytest.raises(UserError, match=sentence):
        told(notes)


@pytest.mark.parametrize("reading", [{"ignore": ["note"]}, {"columns": ["age"]}])
def test_long_texts_that_nothing_reads_need_no_room(
    notes: Path, reading: dict[str, list[str]]
) -> None:
    source, _ = told(notes, **reading)
    assert source.layout is not None
    assert source.layout.input_names == ["age"]


def test_names_of_columns_are_compared_once() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(f"column {k}") for k in range(1000)]
    check_names(names, UserError)
    assert compared < 10 * len(names)
    with pytest.raises(UserError, match="two columns are named 'column 3'"):
        check_names([*names, Name("column 3")], UserError)
