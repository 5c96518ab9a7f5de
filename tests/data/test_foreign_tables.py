"""Tables as they come: other countries' numbers, other programs' files, other people's words."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.data.sources import read


def told(path: Path, **reading: object) -> tuple[Source, list[str]]:
    said: list[str] = []
    how = Reading(**{"target": "ill", "site": "site", **reading})  # type: ignore[arg-type]
    return read("table", str(path), how, said.append), said


def rows(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes(end.join(lines).encode())
    return path


def patients(path: Path, crp: str = "{}.5", divider: str = ",") -> Path:
    """Twenty patients at two sites with a laboratory value."""
    lines = [divider.join(["site", "crp", "ill"])]
    for k in range(20):
        site = "north" if k < 10 else "south"
        lines.append(divider.join([site, crp.format(k * k), str(k % 2)]))
    return rows(path, *lines)


@pytest.mark.parametrize("divider", [";", "\t"])
def test_decimal_commas_are_numbers_where_commas_divide_nothing(
    tmp_path: Path, divider: str
) -> None:
    plain, _ = told(patients(tmp_path / "plain.csv"))
    source, said = told(patients(tmp_path / "comma.csv", "{},5", divider))
    np.testing.assert_array_equal(source.inputs, plain.inputs)
    assert said == ["numbers with a decimal comma are read as numbers: crp"]


def test_points_between_thousands_go_with_decimal_commas(tmp_path: Path) -> None:
    lines = ["site;x;ill", "a;1.234,5;0", "a;2.000;1", "a;-3,25;0", "b;7;1", "b;;0", "b;1,5;1"]
    source, _ = told(rows(tmp_path / "t.csv", *lines))
    np.testing.assert_allclose(source.inputs[:, 0], [1234.5, 2000, -3.25, 7, np.nan, 1.5])


def test_commas_and_points_in_one_column_are_not_guessed_at(tmp_path: Path) -> None:
    lines = ["site;x;ill", "a;1,5;0", "a;2.25;1", "a;3;0", "b;7;1", "b;9;0", "b;1;1"]
    with pytest.raises(UserError, match=r"'x' holds numbers, but '1,5' in t\.csv, line 2"):
        told(rows(tmp_path / "t.csv", *lines))


def test_points_between_thousands_are_told_by_the_commas_of_another_column(tmp_path: Path) -> None:
    lines = ["site;plat;lac;big;ill", "a;866;1,67;12.345.678;0", "b;1.566;3,12;;1"]
    source, said = told(rows(tmp_path / "t.csv", *lines), missing="mean")
    expected = [[866, 1.67, 12345678], [1566, 3.12, np.nan]]
    np.testing.assert_allclose(source.inputs, np.array(expected, np.float32))
    assert "numbers with a decimal comma are read as numbers: lac" in said
    assert "points between thousands are left out of numbers: plat, big" in said


def test_commas_between_thousands_are_told_by_the_points_of_another_column(tmp_path: Path) -> None:
    lines = ["site;plat;lac;cost;ill", "a;1,124;1.42;2,000.5;0", "b;760;2.34;7.25;1"]
    source, said = told(rows(tmp_path / "t.csv", *lines))
    expected = [[1124, 1.42, 2000.5], [760, 2.34, 7.25]]
    np.testing.assert_allclose(source.inputs, np.array(expected, np.float32))
    assert said[0] == "commas between thousands are left out of numbers: plat, cost"


def test_points_that_nothing_speaks_against_are_decimal_points(tmp_path: Path) -> None:
    lines = ["site;x;y;ill", "a;1.566;0.871;0", "b;2.125;3;1"]
    source, said = told(rows(tmp_path / "t.csv", *lines))
    np.testing.assert_allclose(source.inputs, np.array([[1.566, 0.871], [2.125, 3]], np.float32))
    assert not any("thousands" in text or "comma" in text for text in said)


@pytest.mark.parametrize(("x", "y"), [("3,12", "0.871"), ("3,12", "1.5")])
def test_columns_that_contradict_each_other_leave_a_third_one_unknown(
    tmp_path: Path, x: str, y: str
) -> None:
    file = rows(tmp_path / "t.csv", "site;x;y;z;ill", f"a;{x};{y};1.566;0", "b;7;8;9;1")
    wrong = r"'x' has .* comma and 'y' with .* what 1\.566 in 'z' is; write all numbers in one way"
    with pytest.raises(UserError, match=wrong):
        told(file)
    source, _ = told(file, ignore=["y"])
    assert source.inputs[0].tolist() == pytest.approx([3.12, 1566])
    source, _ = told(file, ignore=["z"])
    assert source.inputs[0].tolist() == pytest.approx([3.12, float(y)])


def test_thousands_and_decimals_that_may_be_either_are_refused(tmp_path: Path) -> None:
    file = rows(tmp_path / "t.csv", "site;x;y;ill", "a;1,124;1.566;0", "b;7;8;1")
    with pytest.raises(UserError, match=r"'x' has .* comma and 'y' with .* what 1,124 in 'x' is"):
        told(file)
    source, _ = told(file, ignore=["y"])
    assert source.inputs[0].tolist() == pytest.approx([1.124])


def test_a_column_of_which_most_is_missing_has_its_decimal_commas(tmp_path: Path) -> None:
    lines = [f"{'ab'[k % 2]};{'3,12' if k < 4 else 'NA'};{k % 3 // 2}" for k in range(20)]
    source, _ = told(rows(tmp_path / "t.csv", "site;x;ill", *lines))
    assert source.inputs[:, 0].tolist() == pytest.approx([3.12] * 4 + [np.nan] * 16, nan_ok=True)


def test_texts_with_a_comma_stay_texts(tmp_path: Path) -> None:
    lines = [
        "site;ward;x;ill",
        *(f"a;{w};3,5;{k % 2}" for k, w in enumerate(["A, left", "1,2", "B"] * 4)),
    ]
    source, said = told(rows(tmp_path / "t.csv", *lines))
    assert source.layout is not None
    assert source.layout.categories["ward"] == ["1,2", "A, left", "B"]
    assert said[0] == "numbers with a decimal comma are read as numbers: x"


def test_a_mark_at_the_start_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    plain, _ = told(patients(tmp_path / "plain.csv"))
    content = (tmp_path / "plain.csv").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "windows.csv").write_bytes(b"\xef\xbb\xbf" + content)
    source, _ = told(tmp_path / "windows.csv")
    np.testing.assert_array_equal(source.inputs, plain.inputs)
    assert source.owner_names == ["north", "south"]


def test_packed_files_are_read_and_name_their_sites(tmp_path: Path) -> None:
    plain = patients(tmp_path / "plain.csv")
    folder = tmp_path / "sites"
    folder.mkdir()
    for name in ("east", "west"):
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    source, _ = told(folder, site=None, ignore=["site"])
    assert source.owner_names == ["east", "west"]
    alone, _ = told(folder / "east.csv.gz")
    np.testing.assert_array_equal(alone.inputs, told(plain)[0].inputs)


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    content = gzip.compress(patients(tmp_path / "plain.csv").read_bytes())
    (tmp_path / "t.csv.gz").write_bytes(content[:40])
    with pytest.raises(UserError, match=r"t\.csv\.gz: it cannot be read"):
        told(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("site,x,ill\nSüd,1,0\n".encode("latin-1"), "no text in UTF-8; save it as such, or conv"),
        (b"PK\x03\x04rest", "no text but an archive, as spreadsheets are; save it as CSV"),
    ],
)
def test_other_encodings_and_spreadsheets_are_told_what_to_do(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UserError, match=reason):
        told(tmp_path / "t.csv")


@pytest.mark.parametrize("word", ["n/a", "NULL", "-", ".", "#N/A", "<NA>", "Missing", "n.a."])
def test_what_is_missing_has_many_spellings(tmp_path: Path, word: str) -> None:
    path = patients(tmp_path / "t.csv")
    path.write_text(path.read_text().replace("81.5", word))
    source, _ = told(path)
    assert np.isnan(source.inputs[9, 0])


def test_a_column_that_numbers_the_rows_is_left_out(tmp_path: Path) -> None:
    lines = patients(tmp_path / "t.csv").read_text().splitlines()
    numbered = ["," + lines[0], *(f"{k},{line}" for k, line in enumerate(lines[1:]))]
    source, said = told(rows(tmp_path / "t.csv", *numbered))
    assert source.layout is not None
    assert source.layout.columns == ["crp"]
    assert said == ["t.csv: a column without a name that only numbers the rows is left out"]


def test_numbers_of_people_among_the_inputs_are_told_and_can_be_ignored(tmp_path: Path) -> None:
    lines = patients(tmp_path / "t.csv").read_text().splitlines()
    path = rows(
        tmp_path / "t.csv", "pid," + lines[0], *(f"{k + 7},{x}" for k, x in enumerate(lines[1:]))
    )
    source, (said,) = told(path)
    assert source.inputs.shape[1] == 2
    assert said.startswith("column pid: another whole number in every row, as numbers of people")
    source, said_ = told(path, ignore=["pid"])
    assert source.inputs.shape[1] == 1
    assert said_ == []
    with pytest.raises(UserError, match=r"data.ignore: .* has no column 'patient'"):
        told(path, ignore=["patient"])
    with pytest.raises(UserError, match=r"data.ignore leaves 'crp' out, and data.columns takes it"):
        told(path, ignore=["crp"], columns=["crp"])


@pytest.mark.parametrize("day", ["2020-01-{:02d}", "{:02d}.01.2020", "1/{}/20 10:30"])
def test_dates_are_no_categories(tmp_path: Path, day: str) -> None:
    path = patients(tmp_path / "t.csv")
    lines = path.read_text().splitlines()
    dated = ["day," + lines[0], *(f"{day.format(k % 5 + 1)},{x}" for k, x in enumerate(lines[1:]))]
    with pytest.raises(UserError, match=r"the column 'day' holds dates, such as .*data.ignore"):
        told(rows(path, *dated))
    source, _ = told(path, categorical=["day"])
    assert source.inputs.shape[1] == 5


def folder_of(tmp_path: Path) -> Path:
    """Two hospitals' files, with columns in another order, and one that only one of them has."""
    folder = tmp_path / "hospitals"
    folder.mkdir()
    rows(folder / "a.csv", "age,crp,ill", *(f"{40 + k},{k * k},{k % 2}" for k in range(12)))
    rows(folder / "b.csv", "ill,age", *(f"{k % 2},{60 + k % 6}" for k in range(12)))
    return folder


def test_a_column_that_a_file_lacks_is_refused_until_somebody_decides(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with pytest.raises(UserError, match=r"b\.csv has no column 'crp', which a\.csv has; data.ig"):
        told(folder, site=None)
    source, said = told(folder, site=None, ignore=["crp"])
    assert source.inputs[:, 0].tolist() == [*range(40, 52), *range(60, 66), *range(60, 66)]
    assert said == []
    source, said = told(folder, site=None, columns=["age", "crp"])
    assert np.isnan(source.inputs[12:, 1]).all()
    assert said[0] == "column crp: b.csv has none, so that it counts as missing there"


def test_hidden_files_are_no_sites(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / ".old.csv").write_bytes((folder / "a.csv").read_bytes())
    (folder / "._a.csv").write_bytes(b"\x00\x05\x16\x07\xff\xfe")
    source, said = told(folder, site=None, ignore=["crp"])
    assert source.owner_names == ["a", "b"]
    assert said == []


def test_a_file_without_the_target_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    rows(folder / "c.csv", "age", "3", "4")
    with pytest.raises(UserError, match=r"c\.csv has no column 'ill', which a\.csv has"):
        told(folder, site=None, columns=["age"])


def survival(path: Path, *words: str) -> Path:
    lines = [f"{'ab'[k % 2]},{k},{k % 7},{words[k % 3 > 0]}" for k in range(20)]
    return rows(path, "site,x,days,dead", *lines)


@pytest.mark.parametrize("words", [("True", "False"), ("yes", "no"), ("1", "0"), ("1.0", "0.0")])
def test_events_are_told_in_words_too(tmp_path: Path, words: tuple[str, str]) -> None:
    path = survival(tmp_path / "t.csv", *words)
    source, _ = told(path, task="survival", target=["days", "dead"])
    assert source.labels[:, 1].tolist() == [float(k % 3 == 0) for k in range(20)]
    assert source.labels[:, 0].min() == 0


def test_events_that_are_coded_otherwise_take_data_positive(tmp_path: Path) -> None:
    path = survival(tmp_path / "t.csv", "2", "1")
    with pytest.raises(
        UserError, match=r"the event 'dead' is '2' in .*data.positive names another"
    ):
        told(path, task="survival", target=["days", "dead"])
    source, _ = told(path, task="survival", target=["days", "dead"], positive="2")
    assert source.labels[:, 1].tolist() == [float(k % 3 == 0) for k in range(20)]


def test_a_positive_that_no_row_has_is_named(tmp_path: Path) -> None:
    path = survival(tmp_path / "t.csv", "1", "0")
    wrong = r"data\.positive is 'dead', but no row has it; 'dead' holds '?0'?, '?1'?"
    with pytest.raises(UserError, match=wrong):
        told(path, task="survival", target=["days", "dead"], positive="dead")
    with pytest.raises(UserError, match=r"data\.positive is '>5', but no row has it"):
        told(path, task="binary", target="dead", positive=">5")


def outcomes(path: Path, *words: str) -> Path:
    """Twenty rows at two sites whose outcomes are these words, one after the other."""
    lines = [f"{'ab'[k // 10]},{k % 7},{k / 2},{words[k % len(words)]}" for k in range(20)]
    return rows(path, "site,x,days,status", *lines)


@pytest.mark.parametrize("target", [["days", "status"], "status"])
def test_a_value_that_is_nearly_the_positive_one_is_refused(tmp_path: Path, target: object) -> None:
    path = outcomes(tmp_path / "t.csv", "dead", "alive", "alive", "Dead")
    task = "binary" if target == "status" else "survival"
    wrong = r"t\.csv: data\.positive is 'dead', but 'status' is 'Dead' in 5 rows, .*t\.csv, line 5,"
    with pytest.raises(UserError, match=wrong):
        told(path, task=task, target=target, positive="dead")
    with pytest.raises(UserError, match=r"'status' is 'dead' in 5 rows"):
        told(path, task=task, target=target, positive="DEAD")


def test_several_values_that_count_as_negative_are_told(tmp_path: Path) -> None:
    path = outcomes(tmp_path / "t.csv", "dead", "alive", "alive", "lost")
    _, said = told(path, task="survival", target=["days", "status"], positive="dead")
    words = "status: 'alive' (10 rows) and 'lost' (5 rows) count as"
    assert said == [f"{words} no event (data.positive is 'dead')"]
    _, said = told(path, task="binary", target="status", positive="dead")
    assert said == [f"{words} 'not dead' (data.positive is 'dead')"]
    path = outcomes(tmp_path / "codes.csv", "1", "0", "2", "0.0")
    _, said = told(path, task="survival", target=["days", "status"], positive="1")
    assert said == [
        "status: '0' (10 rows) and '2' (5 rows) count as no event (data.positive is '1')"
    ]


@pytest.mark.parametrize(
    ("words", "positive"),
    [(("dead", "alive"), "dead"), (("1", "0", "0.0"), "1"), (("1", "0", "2"), ">0")],
)
def test_two_values_and_comparisons_need_no_word(
    tmp_path: Path, words: tuple[str, ...], positive: str
) -> None:
    path = outcomes(tmp_path / "t.csv", *words)
    assert told(path, task="survival", target=["days", "status"], positive=positive)[1] == []
    assert told(path, task="binary", target="status", positive=positive)[1] == []


def test_class_names_cannot_make_the_negative_one_positive(tmp_path: Path) -> None:
    path = outcomes(tmp_path / "t.csv", "dead", "alive")
    asked = {"task": "binary", "target": "status", "positive": "dead"}
    source, _ = told(path, **asked, class_names=["alive", "dead"])
    assert (source.class_names, source.labels[:2].tolist()) == (["alive", "dead"], [1, 0])
    for names in (["dead", "alive"], ["gone", "alive"]):
        with pytest.raises(
            UserError, match=r"data\.class_names is .*; the negative one comes first"
        ):
            told(path, **asked, class_names=names)
    with pytest.raises(UserError, match=r"'status' holds '?dead'?, '?alive'?; use its own values"):
        told(path, **asked, class_names=["a", "b"])


def test_what_a_code_is_called_is_told(tmp_path: Path) -> None:
    path = outcomes(tmp_path / "t.csv", "1", "0")
    asked = {"task": "binary", "target": "status", "class_names": ["alive", "dead"]}
    source, said = told(path, **asked, positive="1")
    assert (source.class_names, source.labels[:2].tolist()) == (["alive", "dead"], [1, 0])
    assert said == ["status: '1' is called 'dead', and everything else 'alive' (data.class_names)"]


def test_a_negative_time_is_named(tmp_path: Path) -> None:
    path = survival(tmp_path / "t.csv", "1", "0")
    path.write_text(path.read_text().replace("b,3,3,", "b,3,-3,"))
    with pytest.raises(UserError, match=r"the time 'days' is -3 in t\.csv, line 5; times must not"):
        told(path, task="survival", target=["days", "dead"])


def test_which_of_two_words_is_positive_is_told(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv")
    path.write_text(path.read_text().replace(",1\n", ",dead\n").replace(",0\n", ",survived\n"))
    text = path.read_text()
    path.write_text(text[:-1] + "dead" if text.endswith("1") else text)
    _, said = told(path, task="binary")
    assert said == [
        "ill 'survived' counts as positive, 'dead' as negative; data.positive names another"
    ]
    assert told(path, task="binary", positive="dead")[1] == []


def test_one_and_one_point_nothing_are_the_same_class_and_category(tmp_path: Path) -> None:
    lines = [
        f"{'ab'[k // 10]},{k % 3}{'' if k < 10 else '.0'},{k % 2}{'' if k < 10 else '.0'}"
        for k in range(20)
    ]
    source, said = told(rows(tmp_path / "t.csv", "site,stage,ill", *lines), categorical=["stage"])
    assert source.class_names == ["0", "1"]
    assert source.layout is not None
    assert source.layout.categories == {"stage": ["0", "1", "2"]}
    assert not [text for text in said if "same value" in text]
