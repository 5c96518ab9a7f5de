"""Tables in a narrow terminal: cells go on below, nothing is cut off."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from conftest import Outcome
from rich.console import Console
from rich.table import Table

from fedkf.cli.algorithms import algorithms_table
from fedkf.cli.tables import table


def drawn(made: Table, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_long_names_go_on_below_and_numbers_stay_whole() -> None:
    made = table("", "client", "tested", "balanced accuracy %", "AUROC %", "average precision %")
    made.add_row("St. Mary's Infirmary and Children's Clinic of Somewhere", *["97.5"] * 4)
    lines = drawn(made, 60)
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    assert text.count("97.5") == 4
    for word in ("Infirmary", "Somewhere", "balanced", "precision"):
        assert word in text


def test_a_word_without_room_is_folded() -> None:
    made = table("", "name", "where", texts=("where",))
    made.add_row("heart", "/somewhere/" + "far" * 30)
    lines = drawn(made, 40)
    assert "".join("".join(lines).split()).count("far") >= 29
    assert sum(line.startswith(" heart  /") for line in lines) == 1
    below = " " * len(" heart  ")
    assert all(line.startswith((" heart  ", below, " name   ", " ─")) for line in lines)


def test_algorithms_fit_eighty_columns() -> None:
    passes = {
        f"{m}_{way}": 1.5 for m in ("classifier", "generator") for way in ("forward", "backward")
    }
    row = {
        "name": "fedkf-server",
        "fairness_aware": True,
        "needs_proxy_data": False,
        "discloses": ["weights", "feature_statistics", "label_counts"],
        "bytes_down": 20.71,
        "bytes_up": 1,
        "passes": passes,
        "passes_outside": passes,
        "differs": [],
        "paper": {},
    }
    text = "\n".join(drawn(algorithms_table([row])))
    assert "…" not in text
    for part in ("fedkf-server", "20.71/1", "1.5/1.5", "statistics", "generator", "outside"):
        assert part in text


def test_data_sets_are_listed_whole(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = cli("data", "list")
    assert done.code == 0
    assert "…" not in done.out
