"""Files that an earlier fedkf wrote: today's writes the same, reads them, and goes on with them."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_comparison import (
    Table,
    close_text,
    column,
    compare_configs,
    compare_records,
    compare_runs,
    contains,
    read_page,
    same_machine,
    table_contains,
    without_column,
)
from golden_runs import BEGUN, FINISHED, GOLDEN, options

Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", FINISHED)
def test_a_run_writes_what_it_wrote(name: str, cli: Cli, tmp_path: Path) -> None:
    old, new = GOLDEN / "finished" / name, tmp_path / name
    code, _, err = cli("run", "digits", *options(FINISHED[name]), "--quiet", "--out", new)
    assert code == 0, err
    compare_runs(old, new)
    compare_configs(old / "config.yaml", new / "config.yaml")
    assert (new / "partition.json").read_bytes() == (old / "partition.json").read_bytes()


@pytest.mark.parametrize("name", BEGUN)
def test_a_run_that_was_broken_off_is_resumed_to_the_same_models(
    name: str, cli: Cli, tmp_path: Path
) -> None:
    begun, folder = GOLDEN / "begun" / name, tmp_path / name
    shutil.copytree(begun, folder)
    done = len((begun / "rounds.jsonl").read_text().splitlines())
    assert 0 < done < BEGUN[name].settings["federation.rounds"]
    code, _, err = cli("run", begun / "config.yaml", "--resume", "--quiet", "--out", folder)
    assert code == 0, err
    compare_runs(GOLDEN / "resumed" / name, folder, BEGUN[name].close)
    compare_configs(begun / "config.yaml", folder / "config.yaml")


def test_the_resumed_models_are_the_ones_that_were_kept() -> None:
    lines = (GOLDEN / "resumed" / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {
        str(path.relative_to(GOLDEN)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (GOLDEN / "resumed").glob("*/models/*.safetensors")
    }
    assert found == sums
    assert {name.split("/")[1] for name in sums} == set(BEGUN)


def test_a_report_of_the_runs_says_what_it_said(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    code, _, err = cli("report", GOLDEN / "finished", "--no-samples", "--out", path)
    assert code == 0, err
    old, new = read_page(GOLDEN / "report.html"), read_page(path)
    assert contains(old.texts, new.texts)
    # The one column that has moved: the worst tenth is a metric now, beside the others.
    moved = "worst tenth mean of the sites"
    pairs = zip(column(old.tables, moved), column(new.tables, "Worst 10 % mean"), strict=True)
    assert all(after.startswith(before) for before, after in pairs)
    kept = [without_column(table, moved) for table in old.tables]
    assert contains(kept, new.tables, table_contains)


def test_a_sweep_ends_in_the_same_tables(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("sweep", GOLDEN / "suite.yaml", "--quiet", "--out", tmp_path)
    assert code == 0, err
    for old in sorted((GOLDEN / "sweep").iterdir()):
        new = rows(tmp_path / old.name)
        assert table_contains(rows(old), new, same_machine()), f"{old.name} tells something else"


def rows(path: Path) -> Table:
    """A table in any of the forms in which a sweep writes it."""
    text = path.read_text()
    if path.suffix == ".csv":
        return list(csv.reader(text.splitlines()))
    if path.suffix == ".tex":  # how many columns there are is said twice, and may grow
        text = re.sub(r"(tabular\}|multicolumn)\{[lr|\d]+\}", r"\1", text)
    mark = {".md": r"\|", ".tex": r"&|\\\\"}[path.suffix]
    return [[cell.strip() for cell in re.split(mark, line)] for line in text.splitlines()]


def test_the_algorithms_are_described_as_they_were(cli: Cli) -> None:
    code, out, err = cli("algorithms", "--json")
    assert code == 0, err
    old = json.loads((GOLDEN / "algorithms.json").read_bytes())
    new = {entry["name"]: entry for entry in json.loads(out)}
    assert contains([entry["name"] for entry in old], new)
    compare_records(old, [new[entry["name"]] for entry in old], exact=True)


# -- the comparison itself -----------------------------------------------------------------------

RECORD = {"round": 1, "readouts": {"oca": {"amp": 0.5, "wlp": 0.1}}, "seconds": {"train": 1.0}}


def test_a_further_metric_and_other_times_are_as_before() -> None:
    oca = {"amp": 0.5, "gini": 0.3, "wlp": 0.1}
    compare_records(
        [RECORD], [RECORD | {"readouts": {"oca": oca}, "seconds": {"train": 2.0}}], exact=True
    )


@pytest.mark.parametrize(
    "change",
    [
        {"readouts": {"oca": {"amp": 0.5}}},
        {"readouts": {"oca": {"wlp": 0.1, "amp": 0.5}}},
        {"readouts": {"oca": {"amp": 0.6, "wlp": 0.1}}},
        {"readouts": None},
        {"round": 1.0},
        {"seconds": {}},
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_lost_moved_or_changed_value_is_noticed(change: dict[str, Any], exact: bool) -> None:
    with pytest.raises(AssertionError):
        compare_records([RECORD], [RECORD | change], exact)


def test_a_lost_round_is_noticed() -> None:
    with pytest.raises(AssertionError):
        compare_records([RECORD, RECORD], [RECORD], exact=True)


def test_on_another_processor_a_metric_may_differ_a_little() -> None:
    near = {"oca": {"amp": 0.51, "wlp": 0.1}}
    compare_records([RECORD], [RECORD | {"readouts": near}], exact=False)
    with pytest.raises(AssertionError):
        compare_records([RECORD], [RECORD | {"readouts": near}], exact=True)
    assert close_text("**46.4 ± 1.2**", "**46.9 ± 1.1**")
    assert not close_text("46.4", "49.4")
    assert not close_text("0.0807 (OCA)", "0.0807 (ACA)")


def test_tables_may_grow_but_not_shrink_or_be_reordered() -> None:
    old = [["site", "AMP", "WLP"], ["a", "46.4", "9.1"]]
    grown = [["site", "AMP", "gini", "WLP"], ["b", "1", "2", "3"], ["a", "46.4", "0.2", "9.1"]]
    assert table_contains(old, grown)
    assert not table_contains(grown, old)
    assert not table_contains(old, [["site", "WLP", "AMP"], ["a", "9.1", "46.4"]])
