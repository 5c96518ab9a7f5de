"""Names that look the same are the same, and those that nearly do are told."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.rows import object_rows, signal_rows
from fedkf.data.source import Source
from fedkf.data.sources import read
from fedkf.runs.config import resolve

ONE, TWO = (unicodedata.normalize(form, "Köln") for form in ("NFC", "NFD"))


def told(source: str, path: Path, **about: Any) -> tuple[Source, list[str]]:
    said: list[str] = []
    return read(source, str(path), Reading(**about), said.append), said


def table(path: Path, sites: list[str], classes: list[str], size: str = "Größe") -> Path:
    lines = [f"site,{size},ill"]
    lines += [f"{sites[k % len(sites)]},{k % 7},{classes[k % len(classes)]}" for k in range(24)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_sites_and_classes_of_a_table_are_one_however_they_were_typed(tmp_path: Path) -> None:
    size = unicodedata.normalize("NFD", "Größe")
    path = table(tmp_path / "t.csv", [ONE, TWO, "Ulm"], [TWO, "Ulm", ONE, "Ulm"], size)
    source, said = told("table", path, site="site", target="ill")
    assert (source.owner_names, source.class_names) == ([ONE, "Ulm"], [ONE, "Ulm"])
    assert source.layout is not None
    assert source.layout.columns == ["Größe"]
    assert not [text for text in said if "differ" in text]


def test_files_and_folders_are_sites_by_their_names_as_they_look(tmp_path: Path) -> None:
    for name in (TWO, "Ulm"):
        table(tmp_path / "tables" / f"{name}.csv", ["x"], ["0", "1"])
    source, _ = told("table", tmp_path / "tables", target="ill", ignore=["site"])
    assert source.owner_names == [ONE, "Ulm"]
    table(tmp_path / "tables" / f"{ONE}.csv", ["x"], ["0", "1"])
    with pytest.raises(UserError, match="are two files for one site, Köln"):
        told("table", tmp_path / "tables", target="ill", ignore=["site"])
    for k, place in enumerate([f"{TWO}/a", f"{ONE}/b", f"Ulm/{TWO}", f"Ulm/{ONE}"]):
        (tmp_path / "scans" / place).mkdir(parents=True)
        Image.new("L", (4, 4), 40 * k).save(tmp_path / "scans" / place / "1.png")
    source, _ = told("folder", tmp_path / "scans")
    assert (source.owner_names, source.class_names) == ([ONE, "Ulm"], [ONE, "a", "b"])


def test_arrays_and_recordings_have_names_as_they_look(tmp_path: Path) -> None:
    signals = np.random.default_rng(0).normal(size=(4, 1, 8)).astype("f4")
    client = np.array([ONE, TWO, "Ulm", "Ulm"])
    np.savez(tmp_path / "s.npz", signals=signals, labels=client, client=client)
    source, _ = told("signals", tmp_path / "s.npz")
    assert (source.owner_names, source.class_names) == ([ONE, "Ulm"], [ONE, "Ulm"])
    for name in (TWO, "Ulm"):
        (tmp_path / "rec" / name).mkdir(parents=True)
        lines = ["x,act", *(f"{k % 5},{k // 20}" for k in range(40))]
        (tmp_path / "rec" / name / "1.csv").write_text("\n".join(lines))
    source, _ = told("signals", tmp_path / "rec", target="act", window=4)
    assert source.owner_names == [ONE, "Ulm"]


def test_settings_and_rows_mean_names_as_they_look() -> None:
    data = resolve({"data": {"holdout": TWO, "categories": {TWO: [TWO]}, "path": TWO}}).data
    assert (data.holdout, data.categories, data.path) == (ONE, {ONE: [ONE]}, TWO)
    reading = Reading(columns=[ONE], categories={ONE: ["Ulm", ONE]}, indicators=[])
    assert object_rows([{TWO: TWO}, {TWO: "Ulm"}], reading).inputs.tolist() == [[1], [0]]


def test_names_that_differ_in_capital_letters_or_spaces_alone_are_told(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["Ulm", "ulm", "St Anna", "St  Anna"], ["no", "Yes", "yes"])
    source, said = told("table", path, site="site", target="ill")
    assert len(source.owner_names) == 4
    rest = "differ in capital letters or spaces alone; if they are one, write them alike"
    assert [text for text in said if rest in text] == [
        f"sites 'St  Anna' and 'St Anna' {rest}",
        f"sites 'Ulm' and 'ulm' {rest}",
        f"classes 'Yes' and 'yes' {rest}",
    ]


def test_mistakes_in_rows_are_named_by_their_row() -> None:
    reading = Reading(columns=["x"], categories={}, indicators=[])
    with pytest.raises(UserError, match=r"the column 'x' holds numbers, but '1,71' in row 1; "):
        object_rows([{"x": 1}, {"x": "1,71"}], reading)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UserError, match="rows: two columns are named 'x'"):
        object_rows(pandas.DataFrame([[1, 2]], columns=["x", "x"]), reading)


def test_a_folder_of_new_recordings_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; name the recordings in it, each a file"):
        signal_rows(tmp_path, Reading(window=4, columns=["x"]))
