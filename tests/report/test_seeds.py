"""Runs that differ in their seeds only are one curve, with a band."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import write_run

from fedkf.charts.chart import Lines
from fedkf.charts.matplotlib_backend import draw
from fedkf.charts.plotly_backend import figure as in_browser
from fedkf.report.figures import curves, figure
from fedkf.report.runs import Run, read_runs
from fedkf.report.seeds import common


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Two algorithms; the first with two seeds and once more with one of them."""
    made = {
        "fedavg,seed=0": ("fedavg", 0, [[0.5, 0.7], [0.6, 0.8]]),
        "fedavg,seed=1": ("fedavg", 1, [[0.4, 0.4], [0.8, 0.8]]),
        "again": ("fedavg", 1, [[0.4, 0.4], [0.8, 0.8]]),
        "fedkf,seed=0": ("fedkf", 0, [[0.3, 0.5], [0.9, 0.9]]),
    }
    for name, (algorithm, seed, accuracies) in made.items():
        path = write_run(tmp_path / "runs" / name, accuracies, algorithm)
        config = (path / "config.yaml").read_text()
        (path / "config.yaml").write_text(config.replace("seed: 0", f"seed: {seed}"))
    return read_runs([tmp_path / "runs"])


def test_the_mean_is_drawn_with_what_the_seeds_scatter(runs: list[Run]) -> None:
    chart = curves(runs)[0]
    one, two = chart.series
    assert isinstance(one, Lines)
    assert isinstance(two, Lines)
    assert one.name == "FedAvg, 2 seeds (OCA)"
    assert list(one.y) == pytest.approx([0.5, 0.75])
    assert list(one.spread) == pytest.approx([0.02**0.5, 0.005**0.5])
    assert two.name == "FedKF (OCA)"
    assert list(two.y) == pytest.approx([0.4, 0.9])
    assert not two.spread
    assert chart.description.endswith("Bands are ± one standard deviation over seeds.")
    traces = in_browser(chart)["data"]
    assert traces[0]["error_y"]["array"] == pytest.approx([0.14142, 0.070711])
    assert "error_y" not in traces[1]


def test_the_band_is_in_the_figure(runs: list[Run], tmp_path: Path) -> None:
    draw(figure("curves", runs), tmp_path / "all.svg")
    draw(figure("curves", runs[-1:]), tmp_path / "one.svg")
    bands = [(tmp_path / name).read_text().count("FillBetween") for name in ("all.svg", "one.svg")]
    assert bands[0] > 0
    assert bands[1] == 0


def test_what_several_share_is_their_name() -> None:
    assert common(["prox-mild,seed=0", "prox-mild,seed=1"]) == "prox-mild"
    assert common(["a,lr=0.1,data-seed=0,seed=0", "a,lr=0.1,data-seed=1,seed=0"]) == "a,lr=0.1"
    assert common(["x", "y"]) == "x"
