"""Charts in the browser, as plotly takes them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from fedkf.charts.chart import (
    FEW,
    TICKS,
    Axis,
    Bars,
    Bubbles,
    Chart,
    Lines,
    Points,
    Series,
    shortened,
    side_by_side,
)
from fedkf.charts.palette import style


def figure(chart: Chart) -> dict[str, Any]:
    """What draw.js takes: plotly's data and layout, the title and the description."""
    return {
        "title": chart.title,
        "description": chart.description,
        "data": [trace(series, chart) for series in chart.series],
        "layout": layout(chart),
    }


def trace(series: Series, chart: Chart) -> dict[str, Any]:
    """A series as plotly's trace."""
    name, look = plain(series.name), style(series.colour)
    made: dict[str, Any] = {
        "name": name,
        "x": rounded(series.x),
        "y": rounded(series.y),
        "visible": True,
        "type": "scatter",
    }
    if series.hover:
        made |= {"hovertext": [plain(text) for text in series.hover], "hoverinfo": "text"}
    else:
        value = "%{y:.1%}" if chart.y.percent else "%{y:.4g}"
        made["hovertemplate"] = f"{name}<br>{plain(chart.x.label)} %{{x}}: {value}<extra></extra>"
    if isinstance(series, Lines):
        dash = "dot" if series.dotted else "solid"
        made |= {
            "mode": "lines+markers" if len(series.x) < FEW else "lines",
            "line": {"color": look.colour, "width": 2 * look.width, "dash": dash},
            "marker": {"symbol": look.symbol, "size": 5},
        }
        if series.spread:
            about = {"array": rounded(series.spread), "thickness": 1, "width": 2}
            made["error_y"] = {"type": "data", "color": look.colour, **about}
    elif isinstance(series, Bars):
        made |= {"type": "bar", "marker": {"color": look.colour}}
    elif isinstance(series, Bubbles):
        sizes = {"size": list(series.sizes), "sizeref": max(series.sizes) / 300, "sizemin": 1.5}
        about = {"color": look.colour, "opacity": 0.75, "sizemode": "area"}
        made |= {"mode": "markers", "marker": about | sizes}
    elif isinstance(series, Points):
        made |= marks(series, chart)
    return made


def marks(points: Points, chart: Chart) -> dict[str, Any]:
    """What a trace of points has besides."""
    look = style(points.colour)
    symbol = look.symbol + ("-open" if points.hollow else "")
    made: dict[str, Any] = {
        "x": rounded(side_by_side(points, chart)),
        "visible": "legendonly" if points.hollow else True,
        "mode": "markers",
        "marker": {"color": look.colour, "symbol": symbol, "size": 9},
    }
    if points.intervals:
        down, up = (rounded(arm) for arm in points.arms)
        made["error_y"] = {"array": up, "arrayminus": down, "symmetric": False, "width": 0}
    if points.texts and len(chart.x.names) > TICKS:  # else the axis names them
        texts = [plain(shortened(text)) for text in points.texts]
        made |= {"mode": "markers+text", "text": texts, "textposition": "bottom center"}
    return made


def layout(chart: Chart) -> dict[str, Any]:
    """The axes, and the levels of bars."""
    x, y = axis(chart.x), axis(chart.y)
    if chart.x.names:
        pad = max(0.6, 0.04 * len(chart.x.names))
        x["range"] = [-pad, len(chart.x.names) - 1 + pad]
    made: dict[str, Any] = {"xaxis": x, "yaxis": y, "barmode": "group"}
    levels = [s for s in chart.series if isinstance(s, Bars) and s.level is not None]
    if levels:
        across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1}
        made["shapes"] = [
            across
            | {"y0": s.level, "y1": s.level}
            | {"line": {"color": style(s.colour).colour, "width": 1, "dash": "dash"}}
            for s in levels
        ]
    return made


def axis(about: Axis) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": plain(about.label), "standoff": 8},
        "automargin": bool(about.names),
        "zeroline": about.zero_line,
    }
    if about.percent:
        made["tickformat"] = ".1~%"
    if about.logarithmic:
        made["type"] = "log"
    if ticks := about.ticks:
        made |= {"tickvals": list(range(len(ticks))), "ticktext": [plain(name) for name in ticks]}
    return made


def plain(text: str) -> str:
    """plotly reads some HTML in its texts; names from disk are not to be read so."""
    return html.escape(text, quote=False)


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Five digits: more cannot be seen, and pages stay small."""
    return [None if value is None else float(f"{value:.5g}") for value in values]
