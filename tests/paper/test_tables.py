"""Tables in three formats: means, marks, units, escapes."""

from __future__ import annotations

import csv
import io
import math

from fedkf.paper.published import Published
from fedkf.paper.tables import Cell, Column, ResultTable, metric_column

TABLE = ResultTable(
    "A title",
    "solution",
    [metric_column("α = 1", "amp", []), metric_column("α = 1", "fm", [0.002, 0.003])],
    {
        "FedAvg (ACA)": [Cell((0.5, 0.6), Published(0.8378, 0.0024)), Cell((0.004,))],
        "FedKF (OCA)": [Cell((0.7, 0.7)), Cell((0.002,), Published(0.00154, math.nan))],
        "q-FFL (ACA)": [Cell(), Cell((0.003,))],
    },
    ["A note."],
)


def test_markdown_marks_the_best_and_the_second_and_puts_the_paper_beside() -> None:
    lines = TABLE.markdown().splitlines()
    assert lines[2] == "| solution | α = 1 AMP (%) | α = 1 FM (×10⁻³) |"
    assert lines[4] == "| FedAvg (ACA) | <u>55.00 ± 7.07</u> [83.78 ± 0.24] | 4.000 |"
    assert lines[5] == "| FedKF (OCA) | **70.00 ± 0.00** | **2.000** [1.540] |"
    assert lines[6] == "| q-FFL (ACA) | – | <u>3.000</u> |"
    assert "A note." in lines


def test_latex_is_as_in_the_paper() -> None:
    text = TABLE.latex()
    assert r"\multicolumn{2}{c}{$\alpha$ = 1}" in text
    assert r"FM ($\times 10^{-3}$)" in text
    row = r"FedKF (OCA) & \textbf{70.00 $\pm$ 0.00} & \textbf{2.000} \\"
    assert row in text.splitlines()
    assert r"\underline{55.00 $\pm$ 7.07}" in text


def test_csv_keeps_full_precision_one_line_a_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert len(rows) == 6
    first = rows[0]
    assert (first["solution"], first["group"], first["column"]) == ("FedAvg (ACA)", "α = 1", "AMP")
    assert (float(first["mean"]), first["n"], first["mark"]) == (0.55, "2", "second")
    assert float(first["published_mean"]) == 0.8378
    assert rows[4]["mean"] == ""


def test_fm_is_shown_in_the_power_that_suits_its_values() -> None:
    assert metric_column("", "fm", [0.001, 0.009, 0.02]).unit == "×10⁻³"
    assert metric_column("", "fm", [0.001, 0.01, 0.02]).unit == "×10⁻²"


def test_equal_values_share_a_mark_and_a_single_row_has_none() -> None:
    column = [Column("", "x")]
    tie = ResultTable(
        "", "", column, {"a": [Cell((1.0,))], "b": [Cell((1.0,))], "c": [Cell((0.5,))]}
    )
    assert tie.marks(0) == {"a": "best", "b": "best", "c": "second"}
    assert ResultTable("", "", column, {"a": [Cell((1.0,))]}).marks(0) == {}
