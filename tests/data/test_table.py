"""Tables: rows of CSV and Parquet files as samples, and sentences for those that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.data.table import table

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*lines: str, name: str = "patients.csv") -> str:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
        return str(file)

    return write


ROWS = ("site,age,sex,ill", "north,50,m,no", "south,60,f,yes", "north,,f,yes", "south,40,m,no")


def read(path: str, **settings: object) -> Source:
    return table(path, Reading(**{"target": "ill", "site": "site", **settings}))  # type: ignore[arg-type]


def test_rows_become_samples_of_their_sites(write: Write) -> None:
    source = read(write(*ROWS))
    assert source.layout is not None
    assert source.layout.input_names == ["age", "sex=m", "age missing"]
    expected = [[50, 1, 0], [60, 0, 0], [np.nan, 0, 1], [40, 1, 0]]
    np.testing.assert_array_equal(source.inputs, np.array(expected, np.float32))
    assert source.labels.tolist() == [0, 1, 1, 0]
    assert source.class_names == ["no", "yes"]
    assert source.owners is not None
    sites = [row.partition(",")[0] for row in ROWS[1:]]
    assert [source.owner_names[k] for k in source.owners] == sites


@pytest.mark.parametrize("divider", [",", ";", "\t"])
def test_a_folder_holds_a_file_for_each_site(write: Write, divider: str) -> None:
    for site in ("north", "south"):
        path = write("age,ill", "50,0", "60,1", name=f"all/{site}.csv")
        Path(path).write_text(Path(path).read_text().replace(",", divider))
    source = read(str(Path(path).parent), site=None)
    assert source.owner_names == ["north", "south"]
    assert source.inputs.tolist() == [[50], [60], [50], [60]]


def test_the_configuration_fixes_what_sites_must_agree_on(write: Write) -> None:
    path = write("age,stage,ill", "50,2,1")
    agreed = {"categories": {"stage": ["1", "2", "3"]}, "indicators": ["age"], "least_classes": 1}
    source = read(path, site=None, columns=["stage", "age"], class_names=["0", "1"], **agreed)
    assert source.inputs.tolist() == [[1, 0, 50, 0]]
    assert source.class_names == ["0", "1"]


def test_numbers_are_the_same_category_however_they_are_written(write: Write) -> None:
    source = read(write("stage,ill", "1.0,0", "2,1", "1,0"), site=None, categories={"stage": "12"})
    assert source.inputs.tolist() == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("missing", "rows", "names"),
    [("drop", 3, ["age", "sex=m"]), ("mean", 4, ["age", "sex=m"])],
)
def test_missing_values_are_dropped_or_filled(
    write: Write, missing: str, rows: int, names: list[str]
) -> None:
    source = read(write(*ROWS), missing=missing)
    assert source.layout is not None
    assert (len(source.inputs), source.layout.input_names) == (rows, names)


def test_targets_are_classes_a_number_or_a_time_with_an_event(write: Write) -> None:
    path = write("x,stage,days,died", "1,0,10.5,1", "2,3,20,0", "3,1,5,1")
    numbers = read(path, site=None, task="regression", target="days")
    assert numbers.labels.dtype == np.dtype(np.float32)
    assert numbers.labels.tolist() == [10.5, 20, 5]
    assert numbers.class_names == []
    survival = read(path, site=None, task="survival", target=["days", "died"])
    assert survival.labels.tolist() == [[10.5, 1], [20, 0], [5, 1]]
    ill = read(path, site=None, task="binary", target="stage", positive=">0")
    assert ill.labels.tolist() == [0, 1, 1]
    assert ill.class_names == ["0", ">0"]


def test_who_has_no_target_is_left_out_and_counted(write: Write) -> None:
    said: list[str] = []
    path = write("age,ill", "50,0", "60,?", "70,1")
    source = table(path, Reading(target="ill"), said.append)
    assert source.inputs.tolist() == [[50], [70]]
    assert said == ["1 of 3 rows have no target and are left out"]


@pytest.mark.parametrize(
    ("lines", "settings", "sentence"),
    [
        (ROWS, {"target": None}, "data.target is missing"),
        (ROWS, {"target": "il"}, "no column 'il'; did you mean 'ill'?"),
        (ROWS, {"site": "centre"}, "data.site: "),
        (ROWS, {"columns": ["age", "ill"]}, "'ill' is the target"),
        (ROWS, {"task": "survival"}, "two columns, [time, event]"),
        (ROWS, {"task": "regression"}, "which is no number"),
        (ROWS, {"class_names": ["no", "maybe"]}, "'yes' in patients.csv, line 3"),
        (ROWS, {"categories": {"sex": ["m"]}}, "'f' in patients.csv, line 3, which is not in data"),
        ((*ROWS, "south,fifty,m,no"), {}, "'age' holds numbers, but 'fifty' in patients.csv, li"),
        ((*ROWS, "south,1e99,m,no"), {}, "'1e99' in patients.csv, line 6"),
        ((*ROWS, "south,50,m"), {}, "line 6 has 3 cells, and there are 4 columns"),
        ((*ROWS, ",50,m,no"), {}, "line 6 names no site"),
        (("age,age,ill", "1,2,3"), {}, "two columns are named 'age'"),
        (("site,age,ill",), {}, "holds no rows"),
        ((), {}, "it is empty"),
        (("site,age,ill", "a,1,?", "a,2,"), {}, "no row has a target"),
        (("site,age,ill", "a,1,0", "a,2,0"), {}, "all rows have the same target"),
        (("site,ill", "a,1", "a,0"), {}, "has no columns beside the target"),
        (("x,d,e", "1,5,2"), {"site": None, "task": "survival", "target": ["d", "e"]}, "is '2' in"),
        (("x,d,e", "1,-5,1"), {"site": None, "task": "survival", "target": ["d", "e"]}, "negative"),
        (("x,ill", "1,a", "1,b", "1,c"), {"site": None, "task": "binary"}, "data.positive says"),
        (
            ("id,ill", *(f"p{k}x,{k % 2}" for k in range(60))),
            {"site": None},
            "the column 'id' holds 60 different texts",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    write: Write, lines: tuple[str, ...], settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(write(*lines), **settings)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("site,a,b,ill", *("n,1,7,0", "s,2,7,1") * 5), "column b: the same value in all rows"),
        (
            ("site,a,ill", *(f"n,{k},{k % 2}" for k in range(9)), "s,1,1"),
            "fewer than 5 rows: s (1)",
        ),
        (("site,a,ill", *("n,1,0", "s,1,0", "s,2,1") * 6), "1 row is the same at several sites"),
    ],
)
def test_what_is_odd_is_said_and_goes_on(
    write: Write, lines: tuple[str, ...], sentence: str
) -> None:
    said: list[str] = []
    table(write(*lines), Reading(target="ill", site="site"), said.append)
    assert any(text.startswith(sentence) for text in said)


def test_files_of_a_folder_must_have_the_same_columns(write: Write) -> None:
    write("age,ill", "50,0", name="all/north.csv")
    path = write("years,ill", "50,0", name="all/south.csv")
    with pytest.raises(UserError, match=r"south.csv has no column 'age', which north.csv has"):
        read(str(Path(path).parent), site=None)


def test_parquet_is_read_as_csv_is(write: Write, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"site": ["n", "s", "n"], "age": [50.0, None, 70.0], "ill": [0, 1, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "patients.parquet")
    csv = read(write("site,age,ill", "n,50.0,0", "s,,1", "n,70.0,1"))
    same = read(str(tmp_path / "patients.parquet"))
    np.testing.assert_array_equal(same.inputs, csv.inputs)
    assert same.labels.tolist() == csv.labels.tolist()


def test_what_is_no_site_in_a_folder_of_tables_is_told(write: Write) -> None:
    for name in ("north.csv", "south.csv"):
        path = write("age,ill", "50,0", "60,1", name=f"all/{name}")
    write("age,ill", name="all/east.csv")
    write("PK", name="all/west.xlsx")
    (Path(path).parent / "more").mkdir()
    said: list[str] = []
    source = table(str(Path(path).parent), Reading(target="ill"), said.append)
    assert source.owner_names == ["north", "south"]
    folder = Path(path).parent
    assert f"left out, as it is no table: more, west.xlsx in {folder}" in said
    assert f"left out, as it has no rows: east.csv in {folder}" in said


def test_two_files_of_one_name_are_not_one_site(write: Write) -> None:
    write("age,ill", "50,0", "60,1", name="all/north.csv")
    path = write("age\till", "50\t0", "70\t1", name="all/north.tsv")
    folder = str(Path(path).parent)
    with pytest.raises(UserError, match=r"north\.csv and north\.tsv are two files for one site"):
        read(folder, site=None)
    for name, ending in (("north", "csv"), ("south", "tsv")):
        divider = "," if ending == "csv" else "\t"
        lines = [
            divider.join(row) for row in (("age", "ill", "at"), *(("5", y, name) for y in "01"))
        ]
        write(*lines, name=f"all/north.{ending}")
    assert read(folder, site="at").owner_names == ["north", "south"]
