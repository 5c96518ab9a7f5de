"""Commas and points in numbers: what tells how they are meant, and what they say nothing of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.data.sources import read

NAN = float("nan")


def table(path: Path, **reading: object) -> Source:
    how = Reading(**{"target": "ill", "missing": "mean", **reading})  # type: ignore[arg-type]
    return read("table", str(path), how)


def file(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))
    return path


def values(source: Source, column: int = 0) -> list[Any]:
    return [pytest.approx(x, nan_ok=True) for x in source.inputs[:, column].tolist()]


# -- names ---------------------------------------------------------------------------------------


def test_sites_keep_their_names(tmp_path: Path) -> None:
    lines = ["site;x;ill", "1.001;3,5;0", "1001;2,5;1", "1.002;1;0"]
    source = table(file(tmp_path / "t.csv", *lines), site="site")
    assert source.owner_names == ["1.001", "1.002", "1001"]
    assert values(source) == [3.5, 2.5, 1]


def test_classes_keep_their_names(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "x;ill", "3,5;1.100", "2,5;1.200", "1;1.100")
    assert table(path).class_names == ["1.100", "1.200"]
    assert table(path, class_names=["1.100", "1.200"]).labels.tolist() == [0, 1, 0]
    assert table(path, positive="1.200", task="binary").labels.tolist() == [0, 1, 0]


def test_a_target_that_is_a_number_has_its_thousands(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "x;ill", "3,5;1.100", "2,5;900", "1;2.000")
    assert table(path, task="regression").labels.tolist() == [1100, 900, 2000]
    assert table(path, task="binary", positive=">1000").labels.tolist() == [1, 0, 1]
    days = file(tmp_path / "s.csv", "x;days;dead", "3,5;1.100;0", "2,5;900;1", "1;2.000;1")
    found = table(days, task="survival", target=["days", "dead"]).labels
    assert found.tolist() == [[1100, 0], [900, 1], [2000, 1]]


@pytest.mark.parametrize("settled", [False, True])
def test_categories_keep_their_names(tmp_path: Path, settled: bool) -> None:
    lines = ["icd;weight;ill", "250.010;3,5;0", "250.020;2,5;1", "250.010;1.250;0"]
    about = {"categories": {"icd": ["250.010", "250.020"]}} if settled else {"categorical": ["icd"]}
    source = table(file(tmp_path / "t.csv", *lines), **about)
    assert source.layout is not None
    assert source.layout.categories == {"icd": ["250.010", "250.020"]}
    assert source.layout.input_names == ["icd=250.020", "weight"]
    assert values(source, 1) == [3.5, 2.5, 1250]


def test_categories_with_a_decimal_comma_are_written_with_a_point(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "dose;x;ill", "1,5;1;0", "2,25;2;1", "3;4;0")
    for about in ({"categorical": ["dose"]}, {"categories": {"dose": ["1.5", "2.25", "3"]}}):
        source = table(path, **about)
        assert source.layout is not None
        assert source.layout.categories == {"dose": ["1.5", "2.25", "3"]}


def test_what_becomes_categories_since_most_of_it_is_no_number_is_read_alike_afterwards(
    tmp_path: Path,
) -> None:
    lines = ["code;x;ill", "1-2;3,5;0", "3-4;2,5;1", "1.566;1;0"]
    path = file(tmp_path / "t.csv", *lines)
    source = table(path)
    assert source.layout is not None
    assert source.layout.categories == {"code": ["1-2", "1.566", "3-4"]}
    again = table(path, categories=source.layout.categories)
    np.testing.assert_array_equal(again.inputs, source.inputs)


def test_names_say_nothing_of_how_numbers_are_written(tmp_path: Path) -> None:
    alleles = file(tmp_path / "t.tsv", "allele\tx\till", "1,2\t1.566\t0", "2,1\t2.125\t1")
    source = table(alleles, categorical=["allele"])
    assert values(source, 1) == [1.566, 2.125]
    icd = file(tmp_path / "icd.csv", "icd;plat;weight;ill", "250.01;1.566;3,5;0", "250.02;900;4;1")
    assert values(table(icd, categorical=["icd"]), 1) == [1566, 900]
    pid = ["pid;plat;lac;ill", "250.10;1.510;10,5;0", "250.20;900;3,5;1"]
    path = file(tmp_path / "pid.csv", *pid)
    for about in ({"split_by": "pid"}, {"groups": ["pid"]}, {"site": "pid"}):
        assert values(table(path, **about)) == [1510, 900]
        assert values(table(path, **about, ignore=["pid"])) == [1510, 900]


def test_ages_with_decimal_commas_are_put_into_bands(tmp_path: Path) -> None:
    lines = [f"{k},5;{k / 8};{k % 2}" for k in range(20, 80)]
    source = table(file(tmp_path / "t.csv", "age;x;ill", *lines), groups=["age"])
    assert set(source.groups["age"].tolist()) == {
        *("under 35", "35 to under 50", "50 to under 65", "65 and over")
    }


# -- files of a folder ---------------------------------------------------------------------------


def test_a_file_that_shows_nothing_is_read_as_the_others_of_its_folder(tmp_path: Path) -> None:
    file(tmp_path / "sites" / "a.csv", "plat;lac;ill", "1.566;3,12;0", "1.200;2,5;1")
    file(tmp_path / "sites" / "b.csv", "plat;lac;ill", "1.566;3;0", "1.200;2;1")
    source = table(tmp_path / "sites")
    assert values(source) == [1566, 1200, 1566, 1200]
    assert source.decimal == "comma"


def test_files_of_two_countries_are_read_each_in_its_way(tmp_path: Path) -> None:
    file(tmp_path / "sites" / "a.csv", "plat;lac;ill", "1.566;3,125;0", "900;2,5;1")
    file(tmp_path / "sites" / "b.csv", "plat;lac;ill", "1,566;3.125;0", "900;2.5;1")
    file(tmp_path / "sites" / "c.csv", "plat,lac,ill", "1566,3.125,0", "900,2.5,1")
    source = table(tmp_path / "sites")
    assert values(source) == [1566, 900] * 3
    assert values(source, 1) == [3.125, 2.5] * 3
    assert source.decimal == "auto"


@pytest.mark.parametrize("divider", [";", ","])
def test_a_number_that_files_mean_differently_is_refused(tmp_path: Path, divider: str) -> None:
    file(tmp_path / "sites" / "a.csv", "plat;lac;ill", "1.566;3,12;0", "1.200;2,5;1")
    lines = ["plat;lac;ill", "1.566;3.12;0", "1.200;2.5;1"]
    file(tmp_path / "sites" / "b.csv", *(line.replace(";", divider) for line in lines))
    wrong = r"1\.\d+ in 'plat' is thousands in a\.csv and has decimals in b\.csv; .*data\.decimal"
    with pytest.raises(UserError, match=wrong):
        table(tmp_path / "sites")
    assert values(table(tmp_path / "sites", decimal="point")) == [1.566, 1.2] * 2


def test_files_that_contradict_each_other_leave_a_third_one_unknown(tmp_path: Path) -> None:
    file(tmp_path / "sites" / "a.csv", "plat;lac;ill", "900;3,12;0", "800;2,5;1")
    file(tmp_path / "sites" / "b.csv", "plat;lac;ill", "900;3.12;0", "800;2.5;1")
    file(tmp_path / "sites" / "c.csv", "plat;lac;ill", "1.566;3;0", "1.200;2;1")
    wrong = r"know what 1\.\d+ in 'plat' is; .* set data\.decimal to comma or point"
    with pytest.raises(UserError, match=wrong):
        table(tmp_path / "sites")
    source = table(tmp_path / "sites", decimal="comma")
    assert values(source) == [900, 800, 900, 800, 1566, 1200]
    assert values(source, 1) == [3.12, 2.5, 3.12, 2.5, 3, 2]


def test_recordings_are_read_as_the_others_of_their_folder(tmp_path: Path) -> None:
    file(tmp_path / "r" / "a.csv", "x,act", *(f"{900 + k},{k % 2}" for k in range(8)))
    file(tmp_path / "r" / "b.csv", "x;act", *(f"1.{566 + k};{k % 2}" for k in range(8)))
    file(tmp_path / "r" / "c.csv", "x;act", *(f"{900 + k},5;{k % 2}" for k in range(8)))
    how = Reading(target="act", window=1)
    source = read("signals", str(tmp_path / "r"), how)
    assert sorted(source.inputs[:, 0, 0].tolist()) == [
        *sorted([*range(900, 908), *(900.5 + k for k in range(8))]),
        *range(1566, 1574),
    ]
    assert source.decimal == "comma"


# -- the key -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "expected"), [("comma", 1566), ("point", 1.566), ("auto", 1.566)])
def test_the_configuration_says_what_nothing_shows(
    tmp_path: Path, key: str, expected: float
) -> None:
    path = file(tmp_path / "t.csv", "x;y;ill", "1.566;1;0", "2;2;1")
    assert values(table(path, decimal=key)) == [expected, 2]


def test_the_configuration_leaves_columns_that_tell_by_themselves(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "x;y;z;ill", "3,12;1.5;1.566;0", "1.566;2;2;1")
    with pytest.raises(UserError, match=r"what 1\.566 in 'z' is; .*data\.decimal"):
        table(path)
    for key, z in (("comma", 1566), ("point", 1.566)):
        found = table(path, decimal=key)
        assert [values(found, k)[0] for k in range(3)] == [3.12, 1.5, z]
        assert values(found)[1] == 1566


def test_what_nothing_shows_stays_open(tmp_path: Path) -> None:
    lines = ["x;y;ill", "3;1;0", "2;2;1"]
    assert table(file(tmp_path / "whole.csv", *lines)).decimal == "auto"
    path = file(tmp_path / "plain.csv", *(line.replace(";", ",") for line in lines))
    assert table(path).decimal is None


# -- what is missing -----------------------------------------------------------------------------


def test_codes_of_what_is_missing_are_found_as_they_are_written(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "x;y;ill", "9.999;3,5;0", "1.566;2,5;1", "9.999;9.999;0")
    source = table(path, missing_values=["9.999"])
    assert values(source) == [NAN, 1566, NAN]
    assert values(source, 1) == [3.5, 2.5, NAN]


def test_codes_of_what_is_missing_say_nothing_of_how_numbers_are_written(tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "x;y;ill", "-9.9;3,5;0", "1.566;2,5;1", "1.200;-9.9;0")
    source = table(path, missing_values=["-9.9"])
    assert values(source) == [NAN, 1566, 1200]
    assert values(source, 1) == [3.5, 2.5, NAN]


def test_words_of_ones_own_for_what_is_missing_are_no_texts(tmp_path: Path) -> None:
    lines = [f"{'3,12' if k < 4 else 'unk'};{k % 2}" for k in range(20)]
    source = table(file(tmp_path / "t.csv", "x;ill", *lines), missing_values=["unk"])
    assert values(source) == [3.12] * 4 + [NAN] * 16
