"""What sites said beside accuracy, in the report: tables with support, and the right words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedkf.core.holdings import Holding, Partition
from fedkf.core.records import Round
from fedkf.core.scores import Score, Sites
from fedkf.metrics.sites import summary_of
from fedkf.report.fairness import gains, site_scores
from fedkf.report.figures import charts
from fedkf.report.page import build
from fedkf.report.runs import Run
from fedkf.report.sentences import cautions, glossary, headline

TESTED = [40, 10, 8]


def run_of(metric: str, values: list[float | None], algorithm: str = "fedavg", **more: Any) -> Run:
    """A finished round judged by a metric, at three hospitals."""
    intervals = [None if v is None else (v - 0.05, v + 0.05) for v in values]
    sites = Sites({metric: values}, {metric: intervals}, **more)
    numbers = summary_of(metric, values, TESTED)
    score = Score(numbers, [0, 1, 2], [0.9, 0.8, 0.5], metric=metric, sites=sites)
    holders = [Holding(n, 4 * t, t) for n, t in zip("abc", TESTED, strict=True)]
    partition = Partition(["well", "ill"], None, holders)
    readouts = {"aca": score, "oca": score}
    return Run(
        Path(f"/runs/{algorithm}-{metric}"),
        algorithm,
        algorithm,
        seed=0,
        rounds=[Round(1, [0, 1, 2], readouts=readouts)],
        partition=partition,
        config={"data": {"seed": 0}},
    )


def test_a_site_by_site_table_has_intervals_dashes_support_and_classes() -> None:
    run = run_of(
        "auroc",
        [0.9, 0.75, None],
        support=[[30, 10], [5, 5], [8, 0]],
        sensitivity=[[0.9, 0.5], [0.8, 0.6], [0.75, None]],
        sensitivity_intervals=[[(0.8, 0.95), (0.2, 0.8)], [None, None], [(0.4, 0.9), None]],
    )
    page = build([run])
    assert "85.0 to 95.0" in page
    assert "of 10: 20.0 to 80.0" in page
    assert '<td>–<br><span class="difference">of 0</span></td>' in page
    assert "AUROC at each site" in page
    assert headline([run]).endswith(
        "reaches an average AUROC of 87.0\N{NO-BREAK SPACE}%; at b, the site that it serves "
        "worst, 75.0\N{NO-BREAK SPACE}%."
    )
    assert glossary([run])["WLP"] == "AUROC of the worst client; higher is better."


def test_where_less_is_better_the_worst_site_is_the_one_with_most_and_gains_turn() -> None:
    run, alone = run_of("rmse", [2.0, 3.0, 1.0]), run_of("rmse", [5.0, 2.0, 1.0], "local")
    assert [site.name for site in site_scores(run, "oca")] == ["b", "a", "c"]
    assert gains(run, [run, alone]) == {"b": -1, "a": 3, "c": 0}
    page = build([run, alone])
    assert "at b, the site that it serves worst, 3." in page
    assert "300" not in headline([run])
    assert "lower is better" in glossary([run])["WLP"]


def test_runs_that_are_judged_by_different_metrics_are_not_compared() -> None:
    runs = [run_of("auroc", [0.9, 0.8, 0.7]), run_of("ece", [0.1, 0.2, 0.3], "fedprox")]
    assert runs[0].pairing != runs[1].pairing
    assert any("differ in their metric" in text for text in cautions(runs))
    assert build(runs)


@pytest.mark.parametrize("kind", ["curves", "clients", "spread", "communication", "time"])
def test_no_picture_has_numbers_of_two_metrics(kind: str) -> None:
    runs = [run_of("auroc", [0.9, 0.8, 0.7]), run_of("ece", [0.1, 0.2, 0.3], "fedprox")]
    for chart in charts(kind, runs):
        assert {series.colour for series in chart.series} == {0}


def test_where_less_is_better_the_worst_served_have_most() -> None:
    (chart,) = charts("spread", [run_of("ece", [0.1, 0.3, 0.2])])
    for series in chart.series:
        assert [series.y[0], series.y[-1]] == pytest.approx([0.3, 0.1])
    (usual,) = charts("spread", [run_of("auroc", [0.7, 0.9, 0.8])])
    assert usual.series[0].y[0] == pytest.approx(0.7)


def test_a_metric_of_a_newer_version_is_passed_over() -> None:
    score = {"amp": 0.5, "clients": [0], "accuracy": [None], "metric": "wisdom"}
    read = Score.read({**score, "sites": {"values": {"wisdom": [0.5]}}})
    assert read["amp"] == 0.5
    run = run_of("auroc", [0.9, 0.8, 0.7])
    later = Run(run.path, "x", "fedavg", rounds=[Round(1, readouts={"oca": read})])
    assert "fedavg" in build([later])


@pytest.mark.parametrize("metric", ["balanced_accuracy", "r2"])
def test_every_picture_and_sentence_is_made_for_any_metric(metric: str) -> None:
    runs = [run_of(metric, [0.9, 0.2, -0.3]), run_of(metric, [0.8, 0.4, 0.1], "fedkf")]
    page = build(runs)
    assert "worst-served site from -30.0" in headline(runs)
    assert "No mixture of the sites" not in page


def test_a_metric_that_no_site_has_is_no_lack_of_test_data() -> None:
    reason = "cannot be said of any site: the test samples of each are all of one kind."
    assert headline([run_of("auroc", [None, None, None])]) == f"AUROC {reason}"
    assert headline([run_of("r2", [None, None, None], "local")]) == f"R² {reason}"
    runs = [run_of("concordance", [None, None, None], name) for name in ("fedavg", "fedkf")]
    assert headline(runs) == f"Concordance index {reason}"
    untested = replace(run_of("auroc", [None, None, None]), partition=Partition())
    assert headline([untested]) == (
        "None of the sites has test data, so nothing can be said about AUROC."
    )
