"""Charts in files: small and plain, as journals want them, with fonts that a printer can embed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkf.charts.chart import (
    FEW,
    TICKS,
    Bars,
    Bubbles,
    Chart,
    Figure,
    Images,
    Lines,
    Points,
    Series,
    shortened,
    side_by_side,
)
from fedkf.charts.palette import style

FORMATS = ("pdf", "svg", "png")
UNDATED: Mapping[str, Any] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "figure.titlesize": 9,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedkf",
}
COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: one column of a journal, and both."""
NARROW = 12
"""Names that fit into the narrower of them."""
LETTERS = 20
"""Letters to an inch of a title or a legend."""


def draw(figure: Figure, *paths: Path) -> None:
    """Write a figure in the format of each path's ending; the same figure gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure as Sheet

    charts = [chart for row in figure.rows for chart in row]
    lone = len(charts) == 1
    width = COLUMN if lone and len(charts[0].x.names) <= NARROW else PAGE
    heights = [2.3 + 0.11 * max(0, *(len(c.y.names) - NARROW for c in r)) for r in figure.rows]
    across = math.lcm(*(len(row) for row in figure.rows))
    with matplotlib.rc_context(STYLE):
        drawn = Sheet(figsize=(width, sum(heights)), layout="constrained")
        grid = drawn.add_gridspec(len(heights), across, height_ratios=heights)
        for down, row in enumerate(figure.rows):
            span = across // len(row)
            for place, chart in enumerate(row):
                axes = drawn.add_subplot(grid[down, place * span : (place + 1) * span])
                fill(axes, chart, titled=not lone)
        names: dict[str, Any] = {}
        for axes in drawn.axes:
            for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
                names.setdefault(name, line)
        if len(names) > 1:
            columns = max(1, int(width / (0.5 + max(map(len, names)) / LETTERS)))
            about: Any = {"loc": "outside lower center", "ncols": columns, "frameon": False}
            drawn.legend(names.values(), names, **about)
        if figure.title:
            drawn.suptitle(literal(figure.title))
        for path in paths:
            save(drawn, path)


def draw_images(images: Images, *paths: Path) -> None:
    """Write rows of images, each format by its path's ending."""
    import matplotlib
    from matplotlib.figure import Figure as Sheet

    down, across = len(images.rows), len(images.names)
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        drawn = Sheet(figsize=(0.55 * across + 1, 0.7 * down + 0.3), layout="constrained")
        every = drawn.subplots(down, across, squeeze=False)
        for (label, row), line in zip(images.rows.items(), every, strict=True):
            for image, name, axes in zip(row, images.names, line, strict=True):
                axes.set(xticks=[], yticks=[])
                if not np.isnan(image).any():
                    axes.imshow(np.moveaxis(image, 0, -1).squeeze(), cmap="gray")
                if line is every[0]:
                    axes.set_title(literal(name))
            line[0].set_ylabel(literal(label), rotation=0, ha="right")
        for path in paths:
            save(drawn, path)


def save(drawn: Any, path: Path, dpi: int = 300) -> None:
    """Write a figure of matplotlib's without the time of writing; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.suffix.lstrip(".").lower()
    drawn.savefig(path, format=ending, dpi=dpi, metadata=UNDATED[ending])


def fill(axes: Any, chart: Chart, titled: bool) -> None:
    """Draw a chart into matplotlib's axes."""
    from matplotlib.ticker import MaxNLocator

    for series, left, width in beside_each_other(chart.series):
        plot(axes, series, chart, left, width)
    axes.set(xlabel=literal(chart.x.label), ylabel=literal(chart.y.label))
    if titled:
        room = int(LETTERS * axes.get_position().width * axes.figure.get_figwidth())
        axes.set_title(textwrap.fill(literal(chart.heading), room))
    for axis, along, ticks in (
        (chart.x, axes.xaxis, axes.set_xticks),
        (chart.y, axes.yaxis, axes.set_yticks),
    ):
        if axis.percent:
            along.set_major_formatter(lambda value, _: f"{round(100 * value, 1):g}%")
        if shown := [literal(name.removeprefix("client ")) for name in axis.ticks]:
            upright = along is axes.xaxis and max(map(len, shown)) > 3
            ticks(range(len(shown)), shown, rotation=90 if upright else 0)
    if chart.x.logarithmic:
        axes.set_xscale("log")
    elif not chart.x.names:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=chart.x.whole))
    if chart.y.zero_line:
        axes.axhline(0, color="black", linewidth=0.6)


def beside_each_other(series: Sequence[Series]) -> Iterator[tuple[Series, float, float]]:
    """Each series with where its bars begin and how wide they are."""
    width = 0.8 / max(1, len(series))
    for index, one in enumerate(series):
        yield one, (index - (len(series) - 1) / 2) * width, width


def plot(axes: Any, series: Series, chart: Chart, left: float, width: float) -> None:
    """Draw one series; bars stand `left` of their place and are so wide."""
    look = style(series.colour)
    about: dict[str, Any] = {"color": look.colour, "label": literal(series.name)}
    if isinstance(series, Lines):
        about["marker"] = look.marker if len(series.x) < FEW else None
        about["linewidth"] = STYLE["lines.linewidth"] * look.width
        axes.plot(series.x, series.y, ":" if series.dotted else "-", **about)
        if series.spread:
            pairs = list(zip(series.y, series.spread, strict=True))
            low, high = ([(y or 0) + side * s for y, s in pairs] for side in (-1, 1))
            axes.fill_between(series.x, low, high, color=look.colour, alpha=0.2, linewidth=0)
    elif isinstance(series, Bars):
        axes.bar([x + left for x in series.x], [y or 0 for y in series.y], width, **about)
        if series.level is not None:
            axes.axhline(series.level, color=look.colour, linestyle="--", linewidth=0.8)
    elif isinstance(series, Bubbles):
        largest = max(series.sizes)
        sizes = [60 * n / largest for n in series.sizes]
        axes.scatter(series.x, series.y, sizes, alpha=0.8, **about)
    elif isinstance(series, Points) and not series.hollow:
        places = side_by_side(series, chart)
        axes.plot(places, series.y, look.marker, **about)
        if series.intervals:
            heights = [y or 0 for y in series.y]
            axes.errorbar(places, heights, series.arms, fmt="none", ecolor=look.colour, lw=0.8)
        if len(chart.x.names) > TICKS:
            for x, y, text in zip(series.x, series.y, series.texts, strict=False):
                if text:
                    place = {"xytext": (2, -7), "textcoords": "offset points", "fontsize": 6}
                    axes.annotate(literal(shortened(text)), (x, y), **place)


def literal(text: str) -> str:
    """matplotlib reads formulas between dollar signs; names from disk are none."""
    return text.replace("$", r"\$")
