"""A metric that somebody registers shows up wherever numbers are shown, for old runs too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from folders import append, finish, record, write_run

from fedkf.core.records import Round
from fedkf.core.scores import Score
from fedkf.metrics import METRICS, Metric
from fedkf.paper.grid import grid_table
from fedkf.report.figures import curves
from fedkf.report.listing import Listing
from fedkf.report.page import build
from fedkf.report.repeats import repeats
from fedkf.report.runs import read_run, read_runs
from fedkf.report.sentences import glossary
from fedkf.runs.collect import Group
from fedkf.runs.config import read, resolve
from fedkf.runs.suite import Finished
from fedkf.runs.trackers import scalars


def between(accuracies: Sequence[float | None]) -> float:
    known = [a for a in accuracies if a is not None]
    return max(known) - min(known)


@pytest.fixture(autouse=True)
def metric(monkeypatch: pytest.MonkeyPatch) -> Metric:
    made = Metric("between", "Between", "best less worst", between, higher_is_better=False)
    monkeypatch.setitem(METRICS, made.name, made)
    return made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run from before the metric was there."""
    made = write_run(tmp_path / "runs" / "old", [[0.5, 1.0]])
    append(made, record(2, {"oca": [0.6, 0.9]}))
    finish(made)
    return made


def test_the_report_has_it_in_its_table_its_curves_and_its_glossary(run: Path) -> None:
    page = build(read_runs([run]))
    found = re.search(r'data-metric="between" data-value="([^"]+)">([^<]+)<', page)
    assert found is not None
    assert float(found[1]) == pytest.approx(0.3)
    assert found[2] == "30.0\N{NO-BREAK SPACE}%"
    assert "Between: best less worst (lower is better)" in page
    assert glossary()["Between"] == "best less worst; lower is better."


def test_it_has_a_curve(run: Path) -> None:
    chart = curves([read_run(run)])[-1]
    assert chart.series[0].y == pytest.approx((0.5, 0.3))


def test_the_dashboard_lists_it(run: Path) -> None:
    (row,) = Listing(run.parent).changes(0)["rows"]
    assert row["metrics"]["between"] == pytest.approx(0.3)


def test_means_over_seeds_have_it(run: Path) -> None:
    other = write_run(run.parent / "other", [[0.5, 1.0], [0.8, 0.9]])
    finish(other)
    config = other / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    (row,) = repeats(read_runs([run.parent]))
    assert row["metrics"]["between"][0] == pytest.approx(0.2)


def test_a_sweeps_table_has_a_column_for_it(run: Path) -> None:
    finished = Finished(run, resolve(read("digits")[0], {}))
    table = grid_table("", [Group({"algorithm.name": "fedavg"}, [finished])])
    assert [column.name for column in table.columns][:3] == ["AMP", "FM", "WLP"]
    assert table.columns[-1].heading == "Between (%)"
    assert table.columns[-1].lower
    assert table.rows["FedAvg (OCA)"][-1].values == pytest.approx((0.3,))


def test_trackers_are_told_it(metric: Metric) -> None:
    record = Round(1, readouts={"oca": Score({"between": 0.25})})
    assert dict(scalars(record))["oca/between"] == 0.25
