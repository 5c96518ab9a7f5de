"""Figures for papers: every kind in every format, the same bytes for the same runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import write_run

from fedkf.charts.chart import Bubbles
from fedkf.charts.matplotlib_backend import draw
from fedkf.core.errors import UserError
from fedkf.report.figures import KINDS, clients, curves, figure, gain, partition
from fedkf.report.runs import read_runs

STARTS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(three_runs: Path, tmp_path: Path, kind: str) -> None:
    runs = read_runs([three_runs])
    for ending, start in STARTS.items():
        draw(figure(kind, runs), tmp_path / f"one.{ending}")
        draw(figure(kind, runs), tmp_path / f"two.{ending}")
        content = (tmp_path / f"one.{ending}").read_bytes()
        assert content.startswith(start)
        assert content == (tmp_path / f"two.{ending}").read_bytes()


def test_names_with_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.5, 1.0]], "$a$", names=["$x_{", "b$"])
    draw(figure("clients", read_runs([tmp_path])), tmp_path / "one.svg")
    assert "$x_{" in (tmp_path / "one.svg").read_text()


def test_a_figure_that_lacks_its_data_says_what_it_needs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.5, 1.0]])
    with pytest.raises(UserError, match=r"needs a run with algorithm\.name=local"):
        figure("gain", read_runs([tmp_path]))


def test_charts_hold_the_numbers_of_the_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.5, 1.0], [0.9, 0.7]], names=["north", "south"])
    write_run(tmp_path / "b", [[0.8, 0.9]], "local", names=["north", "south"])
    runs = read_runs([tmp_path])
    amp, fm, wlp, worst10, gini = curves(runs)
    assert amp.series[0].y == (0.75, 0.8)
    assert fm.series[0].y == pytest.approx((0.0625, 0.01))
    assert wlp.series[0].y == (0.5, 0.7)
    assert "FedAvg (OCA) ends at 70.0" in wlp.description
    assert worst10.series[0].y == (0.5, 0.7)
    assert gini.series[0].y == pytest.approx((1 / 6, 1 / 16))
    (sites,) = clients(runs)
    assert sites.x.names == ["south", "north"]  # the worst first
    assert sites.series[0].hover[0].replace("\N{NO-BREAK SPACE}", " ") == "south: 70.0 % (7 of 10)"
    (gains,) = gain(runs)
    named = dict(zip(gains.x.names, gains.series[0].y, strict=True))
    assert gains.series[0].x == [0, 1]
    assert named == pytest.approx({"south": -20, "north": 10})
    (bubbles,) = partition(runs)
    assert isinstance(bubbles.series[0], Bubbles)
    assert list(bubbles.series[0].sizes) == [1, 3, 2, 3]
