"""Charts are values: what they say is drawn alike in files and in a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkf.charts import plotly_backend
from fedkf.charts.chart import Axis, Bars, Chart, Figure, Images, Lines, Points, sheet, side_by_side
from fedkf.charts.matplotlib_backend import draw, draw_images
from fedkf.charts.palette import PALETTE, style


def line(name: str, colour: int = 0) -> Lines:
    return Lines(name=name, x=[1, 2], y=[0.1, 0.2], colour=colour)


def chart(*names: str) -> Chart:
    series = [line(name, colour) for colour, name in enumerate(names)]
    return Chart("AMP: mean accuracy", Axis("round"), Axis("AMP", percent=True), series)


def svg(figure: Figure, folder: Path) -> str:
    draw(figure, folder / "drawn.svg")
    return (folder / "drawn.svg").read_text()


def test_both_back_ends_draw_every_series_in_the_same_colours(tmp_path: Path) -> None:
    drawn = svg(sheet([chart("one", "two", "three")]), tmp_path)
    traces = plotly_backend.figure(chart("one", "two", "three"))["data"]
    for trace, name in zip(traces, ("one", "two", "three"), strict=True):
        assert trace["name"] == name
        assert name in drawn
        assert trace["line"]["color"].lower() in drawn


def test_where_the_colours_begin_again_lines_are_thinner() -> None:
    assert style(1).width == 1
    again = style(len(PALETTE) + 1)
    assert (again.colour, again.width) == (style(1).colour, 0.5)


def test_a_row_of_three_stands_above_a_row_of_two(tmp_path: Path) -> None:
    above, below = [chart("a"), chart("b"), chart("c")], [chart("d"), chart("e")]
    drawn = svg(Figure([above, below], "a title"), tmp_path)
    assert drawn.count("mean accuracy") == 5
    assert "a title" in drawn


def test_a_panel_is_headed_without_the_label_of_its_axis() -> None:
    assert chart("a").heading == "mean accuracy"
    assert Chart("K: 10", Axis("α"), Axis("AMP"), []).heading == "K: 10"


def test_charts_fill_rows_of_three() -> None:
    assert [len(row) for row in sheet([chart("a")] * 5).rows] == [3, 2]


def test_a_level_is_marked_across_the_bars(tmp_path: Path) -> None:
    bars = Bars(name="a", x=[0, 1], y=[0.5, 0.9], level=0.5)
    about = Chart("accuracy", Axis("site", ["x", "y"]), Axis("accuracy"), [bars])
    (mark,) = plotly_backend.figure(about)["layout"]["shapes"]
    assert (mark["y0"], mark["y1"]) == (0.5, 0.5)
    assert "stroke-dasharray" in svg(sheet([about]), tmp_path)


def test_names_are_cut_to_what_fits_and_left_out_where_too_many() -> None:
    assert Axis("site", ["x" * 30]).ticks == ["x" * 21 + "…"]
    assert Axis("site", ["x"] * 41).ticks == []


def test_equal_marks_of_two_series_lie_side_by_side() -> None:
    one, two = (Points(name=str(k), x=[0.0], y=[0.5], colour=k) for k in (0, 1))
    both = Chart("", Axis("site", ["x"]), Axis("accuracy"), [one, two])
    places = [side_by_side(points, both)[0] for points in (one, two)]
    assert places[0] == pytest.approx(-places[1])
    assert places[0] < 0


def test_intervals_reach_below_and_above_their_marks(tmp_path: Path) -> None:
    points = Points(name="gain", x=[0.0], y=[2.0], intervals=[(-1.0, 2.5)])
    about = Chart("", Axis("", ["x"]), Axis("points"), [points])
    (trace,) = plotly_backend.figure(about)["data"]
    assert trace["error_y"]["arrayminus"] == [3.0]
    assert trace["error_y"]["array"] == [0.5]
    plain = Chart("", about.x, about.y, [Points(name="gain", x=[0.0], y=[2.0])])
    assert "error_y" not in plotly_backend.figure(plain)["data"][0]
    assert svg(sheet([about]), tmp_path) != svg(sheet([plain]), tmp_path)
    assert "LineCollection" in svg(sheet([about]), tmp_path)


def test_the_same_images_give_the_same_bytes_and_missing_ones_are_left_blank(
    tmp_path: Path,
) -> None:
    grey = np.full((2, 1, 4, 4), 0.5)
    grey[1] = np.nan
    for name in ("one.png", "two.png"):
        draw_images(Images({"real": grey}, ["a", "b"]), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    draw_images(Images({"real": grey}, ["a", "b"]), tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().count("<image") == 1
