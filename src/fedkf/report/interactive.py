"""Charts for the browser, as plotly takes them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from fedkf.report.charts import Chart, Series

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", "#A65E2E")
"""Okabe and Ito's colours, which stay apart for colour-blind readers, and two more."""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star", "pentagon", "cross")
TICKS = 40
LONGEST = 22


def plain(text: str) -> str:
    """plotly reads some HTML in its texts; names from disk are not to be read so."""
    return html.escape(text, quote=False)


def short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else float(f"{v:.5g}") for v in values]


def beside(series: Series, chart: Chart) -> Sequence[float]:
    """Marks of a site lie side by side, so that equal ones do not hide each other."""
    if series.look not in ("points", "hollow") or len(chart.x_names) > TICKS:
        return series.x
    colours = 1 + max(s.colour for s in chart.series)
    shift = (series.colour - (colours - 1) / 2) * min(0.14, 0.7 / colours)
    return [x + shift for x in series.x]


def trace(series: Series, chart: Chart) -> dict[str, Any]:
    colour = COLOURS[series.colour % len(COLOURS)]
    symbol = SYMBOLS[series.colour % len(SYMBOLS)]
    made: dict[str, Any] = {
        "name": plain(series.name),
        "x": rounded(beside(series, chart)),
        "y": rounded(series.y),
        "visible": True if series.shown else "legendonly",
        "type": "scatter",
    }
    if series.hover:
        made |= {"hovertext": [plain(t) for t in series.hover], "hoverinfo": "text"}
    else:
        value = "%{y:.1%}" if chart.percent else "%{y:.4g}"
        made["hovertemplate"] = (
            f"{plain(series.name)}<br>{chart.x_label} %{{x}}: {value}<extra></extra>"
        )
    if series.look in ("solid", "dotted"):
        few = len(series.x) < 30
        made |= {
            "mode": "lines+markers" if few else "lines",
            "line": {
                "color": colour,
                "width": 2,
                "dash": "solid" if series.look == "solid" else "dot",
            },
            "marker": {"symbol": symbol, "size": 5},
        }
    elif series.look == "bars":
        made |= {"type": "bar", "marker": {"color": colour}}
    elif series.look == "bubbles":
        largest = max(series.sizes)
        made |= {
            "mode": "markers",
            "marker": {
                "color": colour,
                "opacity": 0.75,
                "size": list(series.sizes),
                "sizemode": "area",
                "sizeref": largest / 300,
                "sizemin": 1.5,
            },
        }
    else:
        hollow = series.look == "hollow"
        named = bool(series.texts) and len(chart.x_names) > TICKS  # else the axis names them
        made |= {
            "mode": "markers+text" if named else "markers",
            "marker": {"color": colour, "symbol": symbol + ("-open" if hollow else ""), "size": 9},
        }
        if named:
            made |= {
                "text": [plain(short(t)) for t in series.texts],
                "textposition": "bottom center",
            }
    return made


def axis(label: str, names: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": plain(label), "standoff": 8},
        "automargin": bool(names),
        "zeroline": False,
    }
    if names and len(names) <= TICKS:
        made |= {
            "tickvals": list(range(len(names))),
            "ticktext": [plain(short(name)) for name in names],
        }
    return made


def layout(chart: Chart) -> dict[str, Any]:
    x, y = axis(chart.x_label, chart.x_names), axis(chart.y_label, chart.y_names)
    if chart.percent:
        y["tickformat"] = ".1~%"
    if chart.zero_line:
        y["zeroline"] = True
    if chart.x_names:
        pad = max(0.6, 0.04 * len(chart.x_names))
        x["range"] = [-pad, len(chart.x_names) - 1 + pad]
    return {"xaxis": x, "yaxis": y, "barmode": "group"}


def figure(chart: Chart) -> dict[str, Any]:
    return {
        "title": chart.title,
        "says": chart.says,
        "data": [trace(series, chart) for series in chart.series],
        "layout": layout(chart),
    }
