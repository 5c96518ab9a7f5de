"""The paper's figures, from finished runs, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkf.report.figures import COLOURS, METRICS, save

STYLES = {"aca": ":", "oca": "-"}
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Named lines: places across and heights."""

Histories = Mapping[tuple[str, str], Sequence[Sequence[Mapping[str, Any]]]]
"""The rounds of each seed, by solution's name and readout."""


def save_both(figure: Any, path: Path) -> list[Path]:
    """As PNG and as SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg")]
    for target in paths:
        save(figure, target)
    return paths


def panels(count: int, columns: int = 3) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    across = min(count, columns)
    down = -(-count // across)
    figure, axes = plt.subplots(
        down, across, figsize=(4.3 * across, 3.6 * down), layout="constrained", squeeze=False
    )
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])


def mean_curve(
    runs: Iterable[Sequence[Mapping[str, Any]]], readout: str, metric: str
) -> tuple[list[float], list[float]]:
    """A metric against rounds, the mean over seeds where all of them were evaluated."""
    found: dict[int, list[float]] = {}
    count = 0
    for history in runs:
        count += 1
        for record in history:
            score = (record["readouts"] or {}).get(readout)
            if score and score[metric] is not None:
                found.setdefault(record["round"], []).append(score[metric])
    rounds = [r for r in sorted(found) if len(found[r]) == count]
    return [float(r) for r in rounds], [float(np.mean(found[r])) for r in rounds]


def curves(
    histories: Histories, path: Path, title: str, metrics: Sequence[str] = ("amp", "fm", "wlp")
) -> list[Path]:
    """Metrics against rounds, one line a solution; dotted for ACA."""
    figure, axes = panels(len(metrics))
    names = list(dict.fromkeys(name for name, _ in histories))
    for axis, metric in zip(axes, metrics, strict=True):
        for (name, readout), runs in histories.items():
            x, y = mean_curve(runs, readout, metric)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            width = 1 if names.index(name) < len(COLOURS) else 2
            label = f"{name} ({readout.upper()})"
            axis.plot(x, y, STYLES[readout], color=colour, label=label, linewidth=width)
        axis.set(xlabel="round", title=METRICS[metric])
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=6)
    figure.suptitle(title)
    return save_both(figure, path)


def lines(
    parts: Mapping[str, Series],
    path: Path,
    title: str,
    across: str,
    up: str,
    log: bool = False,
) -> list[Path]:
    """One panel a part, its series as lines."""
    figure, axes = panels(len(parts))
    for axis, (name, series) in zip(axes, parts.items(), strict=True):
        for index, (label, (x, y)) in enumerate(series.items()):
            style = "o:" if "ACA" in label else "o-"
            axis.plot(x, y, style, color=COLOURS[index % len(COLOURS)], label=label, markersize=4)
        axis.set(xlabel=across, ylabel=up, title=name)
        if log:
            axis.set_xscale("log")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.suptitle(title)
    return save_both(figure, path)


def image_rows(
    rows: Mapping[str, np.ndarray[Any, Any]], names: Sequence[str], path: Path
) -> list[Path]:
    """Rows of images, one column a class: N×C×H×W in [0, 1]; NaN where there is none."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(rows),
        len(names),
        figsize=(0.55 * len(names) + 1, 0.7 * len(rows) + 0.3),
        layout="constrained",
        squeeze=False,
    )
    for (label, images), line in zip(rows.items(), axes, strict=True):
        for image, name, axis in zip(images, names, line, strict=True):
            axis.set(xticks=[], yticks=[])
            if not np.isnan(image).any():
                axis.imshow(np.moveaxis(image, 0, -1).squeeze(), cmap="gray")
            if line is axes[0]:
                axis.set_title(name, fontsize=7)
        line[0].set_ylabel(label, fontsize=7, rotation=0, ha="right")
    return save_both(figure, path)
