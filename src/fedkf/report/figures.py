"""Figures of runs, for files and for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

METRICS = {
    "amp": "AMP (higher is better)",
    "fm": "FM (lower is fairer)",
    "wlp": "WLP (higher is better)",
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, which stay apart for colour-blind readers."""


UNDATED: Mapping[str, Any] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}


def save(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a figure and forget it; the same figure gives the same bytes."""
    import matplotlib.pyplot as plt

    ending = path.suffix.lstrip(".")
    with plt.rc_context({"svg.hashsalt": "fedkf"}):
        figure.savefig(path, format=ending, dpi=dpi, metadata=UNDATED[ending])
    plt.close(figure)


def bubbles(about: Mapping[str, Any], path: Path) -> None:
    """Who holds how much of which class: clients across, classes up, area for the count."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = np.array([client["classes"] for client in about["clients"]])
    clients, classes = counts.shape
    figure, axis = plt.subplots(
        figsize=(min(16, 2.5 + 0.35 * clients), min(16, 2 + 0.3 * classes)), layout="constrained"
    )
    k, c = np.nonzero(counts)
    axis.scatter(k, c, s=300 * counts[k, c] / counts.max(), color=COLOURS[0], alpha=0.7)
    axis.set(
        xlabel="client", ylabel="class", xlim=(-0.8, clients - 0.2), ylim=(-0.8, classes - 0.2)
    )
    names = [client["name"].removeprefix("client ") for client in about["clients"]]
    if clients <= 40:
        axis.set_xticks(range(clients), names, rotation=90 if max(map(len, names)) > 3 else 0)
    if classes <= 60:
        axis.set_yticks(range(classes), about["class_names"])
    axis.grid(alpha=0.2)
    axis.set_title(f"heterogeneity {about['total_variation']:.2f}", fontsize=10)
    save(figure, path)


def comparison(
    histories: Mapping[str, Sequence[Mapping[str, Any]]], path: Path, title: str = ""
) -> None:
    """AMP, FM and WLP against rounds, and each client's accuracy after the last round."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 7.5), layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1))
    curves = top.subplots(1, 3)
    bars = bottom.subplots(1, 2, sharey=True)
    for colour, (name, history) in zip(COLOURS, histories.items(), strict=False):
        scored = [r for r in history if r["readouts"]]
        for axis, (metric, label) in zip(curves, METRICS.items(), strict=True):
            for readout, style in (("aca", ":"), ("oca", "-")):
                known = [r for r in scored if readout in r["readouts"]]
                axis.plot(
                    [r["round"] for r in known],
                    [r["readouts"][readout][metric] for r in known],
                    style,
                    color=colour,
                    label=f"{name} ({readout.upper()})",
                )
            axis.set(xlabel="round", title=label)
            axis.grid(alpha=0.3)
    curves[0].legend(fontsize=8)
    width = 0.8 / len(histories)
    for axis, readout in zip(bars, ("aca", "oca"), strict=True):
        for index, (name, history) in enumerate(histories.items()):
            score = history[-1]["readouts"][readout]
            places = [
                k + (index - (len(histories) - 1) / 2) * width for k in range(len(score["clients"]))
            ]
            heights = [a if a is not None else 0.0 for a in score["accuracy"]]
            axis.bar(
                places, heights, width, color=COLOURS[index], label=f"{name} ({readout.upper()})"
            )
            axis.axhline(score["wlp"], color=COLOURS[index], linestyle="--", linewidth=1)
        axis.set(
            xticks=range(len(score["clients"])),
            xticklabels=score["clients"],
            xlabel="client",
            title=f"accuracy of each client, {readout.upper()}; dashed: the worst",
            ylim=(0, 1.2),
        )
        axis.legend(fontsize=8, loc="upper right", ncols=len(histories))
    if title:
        figure.suptitle(title)
    save(figure, path)
