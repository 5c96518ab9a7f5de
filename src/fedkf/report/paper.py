"""Charts for papers: small, plain, with fonts that a printer can embed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkf.core.errors import UserError
from fedkf.report.charts import KINDS, Chart, Series
from fedkf.report.figures import save
from fedkf.report.interactive import COLOURS, TICKS, beside, short
from fedkf.report.runs import Run

FORMATS = ("pdf", "svg", "png")
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}
MARKERS = ("o", "D", "s", "^", "X", "*", "p", "P")
COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: one column of a journal, and both."""


def draw(kind: str, runs: Sequence[Run], path: Path) -> None:
    """Write one kind of figure; the same runs give the same bytes."""
    charts = [chart for chart in KINDS[kind](runs) if chart.series]
    if not charts:
        raise UserError(f"there is nothing to draw for {kind}{MISSING.get(kind, '')}")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    width = COLUMN if len(charts) == 1 and len(charts[0].x_names) <= 12 else PAGE
    tall = 2.3 + 0.11 * max(0, len(charts[0].y_names) - 12)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(charts), figsize=(width, tall), squeeze=False, layout="constrained"
        )
        for axis, chart in zip(axes[0], charts, strict=True):
            fill(axis, chart, len(charts) > 1)
        handles: dict[str, Any] = {}
        for axis in axes[0]:
            lines, labels = axis.get_legend_handles_labels()
            handles |= dict(zip(labels, lines, strict=True))
        if len(handles) > 1:
            columns = max(1, int(width // 1.6))
            figure.legend(
                handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False
            )
        save(figure, path, dpi=300)


MISSING = {
    "gain": ": it needs a run with algorithm.name=local among the others",
    "partition": ": class counts are known in simulations only",
}


def fill(axis: Any, chart: Chart, titled: bool) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    for index, series in enumerate(chart.series):
        plot(axis, series, chart, index)
    axis.set(xlabel=literal(chart.x_label), ylabel=literal(chart.y_label))
    if titled:
        axis.set_title(literal(chart.title.partition(": ")[2]))
    if chart.percent:
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if chart.zero_line:
        axis.axhline(0, color="black", linewidth=0.6)
    for names, ticks, along in (
        (chart.x_names, axis.set_xticks, axis.xaxis),
        (chart.y_names, axis.set_yticks, axis.yaxis),
    ):
        if names and len(names) <= TICKS:
            shown = [literal(short(name).removeprefix("client ")) for name in names]
            long = along is axis.xaxis and max(map(len, shown)) > 3
            ticks(range(len(names)), shown, rotation=90 if long else 0)
    if not chart.x_names:
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=chart.x_label == "round"))


def plot(axis: Any, series: Series, chart: Chart, index: int) -> None:
    colour = COLOURS[series.colour % len(COLOURS)]
    marker = MARKERS[series.colour % len(MARKERS)]
    about: dict[str, Any] = {"color": colour, "label": literal(series.name)}
    if series.look in ("solid", "dotted"):
        few = marker if len(series.x) < 30 else None
        axis.plot(series.x, series.y, "-" if series.look == "solid" else ":", marker=few, **about)
    elif series.look == "bars":
        width = 0.8 / len(chart.series)
        left = (index - (len(chart.series) - 1) / 2) * width
        axis.bar([x + left for x in series.x], series.y, width, **about)
    elif series.look == "bubbles":
        largest = max(series.sizes)
        axis.scatter(series.x, series.y, [60 * n / largest for n in series.sizes], **about)
    elif series.shown:
        axis.plot(beside(series, chart), series.y, marker, **about)
        if len(chart.x_names) > TICKS:
            for x, y, text in zip(series.x, series.y, series.texts, strict=False):
                if text:
                    place = {"xytext": (2, -7), "textcoords": "offset points", "fontsize": 6}
                    axis.annotate(literal(short(text)), (x, y), **place)


def literal(text: str) -> str:
    """matplotlib reads formulas between dollar signs; names from disk are none."""
    return text.replace("$", r"\$")
