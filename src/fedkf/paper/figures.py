"""The paper's figures, from finished runs, as PNG and SVG."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fedkf.charts.chart import Axis, Chart, Figure, Images, Lines, sheet
from fedkf.charts.labels import metric_title, readout_label
from fedkf.charts.matplotlib_backend import draw, draw_images
from fedkf.core.records import Round
from fedkf.metrics import METRICS
from fedkf.paper.published import PAPER_METRICS

Curve = tuple[Sequence[float], Sequence[float]]
"""Places across and heights."""

Histories = Mapping[tuple[str, str], Sequence[Sequence[Round]]]
"""The rounds of each seed, by algorithm's label and readout."""


def write(figure: Figure | Images, path: Path) -> list[Path]:
    """Draw a figure as PATH.png and PATH.svg; their paths."""
    paths = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg")]
    if isinstance(figure, Images):
        draw_images(figure, *paths)
    else:
        draw(figure, *paths)
    return paths


def mean_curve(runs: Iterable[Sequence[Round]], readout: str, metric: str) -> Curve:
    """A metric against rounds, the mean over seeds where all of them were evaluated."""
    found: dict[int, list[float]] = {}
    count = 0
    for history in runs:
        count += 1
        for record in history:
            score = (record.readouts or {}).get(readout)
            value = score[metric] if score else None
            if value is not None:
                found.setdefault(record.round, []).append(value)
    rounds = [number for number in sorted(found) if len(found[number]) == count]
    return rounds, [statistics.fmean(found[number]) for number in rounds]


def curves(histories: Histories, title: str, metrics: Sequence[str] = PAPER_METRICS) -> Figure:
    """Metrics against rounds, one line a solution; dotted for ACA."""
    names = list(dict.fromkeys(name for name, _ in histories))
    charts = []
    for metric in (METRICS[name] for name in metrics):
        series = []
        for (name, readout), runs in histories.items():
            x, y = mean_curve(runs, readout, metric.name)
            label, colour = readout_label(name, readout), names.index(name)
            series.append(Lines(name=label, x=x, y=y, colour=colour, dotted=readout == "aca"))
        along = Axis(metric.label, percent=metric.percent)
        charts.append(Chart(metric_title(metric), Axis("round", whole=True), along, series))
    return sheet(charts, title)


def panels(parts: Mapping[str, Mapping[str, Curve]], title: str, x: Axis, y: Axis) -> Figure:
    """One chart a part, with a line for each name in it; dotted for ACA."""
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    charts = []
    for part, lines in parts.items():
        series = [
            Lines(name=name, x=xs, y=ys, colour=names.index(name), dotted="ACA" in name)
            for name, (xs, ys) in lines.items()
        ]
        charts.append(Chart(part, x, y, series))
    return sheet(charts, title)
