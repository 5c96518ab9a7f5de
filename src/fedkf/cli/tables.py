"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from fedkf.metrics import METRICS

if TYPE_CHECKING:
    from fedkf.core.records import Round
    from fedkf.runs.comparison import Gain

MILESTONES = 5


def table(title: str, *columns: str) -> Table:
    """An empty table: texts in the first column, numbers in the others."""
    made = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", no_wrap=index == 0)
    return made


def percent(value: float | None, signed: bool = False) -> str:
    """A fraction in percent, or a dash where there is none."""
    if value is None:
        return "–"
    return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"


def scores(values: Mapping[str, float | None]) -> str:
    """The metrics of one readout in a few words."""
    known = [metric for metric in METRICS.values() if metric.name in values]
    return ", ".join(f"{metric.label} {metric.show(values[metric.name])}" for metric in known)


def results_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """Every metric of every algorithm and readout."""
    made = table("", "algorithm", "readout", *(metric.heading for metric in METRICS.values()))
    for name, summary in summaries.items():
        for readout, score in summary["readouts"].items():
            if score["amp"] is None:
                made.add_row(name, readout.upper(), "no test data")
                continue
            numbers = [metric.show(score.get(metric.name)) for metric in METRICS.values()]
            part = f" ({score['judged']} of {score['of']} clients)" if "of" in score else ""
            made.add_row(name, readout.upper() + part, *numbers)
    return made


def holdout_table(summary: Mapping[str, Any]) -> Table | None:
    """What the models do at sites that took no part; None where none was held out."""
    held = summary.get("holdout")
    if held is None:
        return None
    readouts = held["readouts"]
    heads = [f"{name.upper()} %" for name in readouts]
    made = table("held out: not trained on", "site", "tested", *heads)
    for k, (name, tested) in enumerate(zip(held["sites"], held["tested"], strict=True)):
        made.add_row(name, str(tested), *(percent(s["accuracy"][k]) for s in readouts.values()))
    return made


def cost_table(rounds: Sequence[Round]) -> Table | None:
    """AMP on the way against what it had taken: rounds, time and megabytes sent both ways.

    None for a run that was evaluated once: the way is not known.
    """
    seconds, megabytes, rows = 0.0, 0.0, []
    for record in rounds:
        seconds += record.seconds.get("total", 0)
        megabytes += sum(record.bytes.values()) / 1e6
        if record.readouts:
            values = [score["amp"] for score in record.readouts.values()]
            rows.append((record.round, seconds, megabytes, values))
    if len(rows) < 2:
        return None
    metric, readouts = METRICS["amp"], [r for r in rounds if r.readouts][-1].readouts or {}
    heads = [f"{metric.label} {readout.upper()} %" for readout in readouts]
    made = table("on the way", "round", "time", "MB sent", *heads)
    count = min(MILESTONES, len(rows))
    for k in range(1, count + 1):
        round, spent, sent, values = rows[k * len(rows) // count - 1]
        cells = [metric.show(value) for value in values]
        made.add_row(str(round), str(timedelta(seconds=int(spent))), f"{sent:.1f}", *cells)
    return made


def gain_table(gain: Gain) -> Table:
    """What federating gains each client over training alone."""
    rows = table(f"gain of federating: {gain.title}", "client", "federated %", "alone %", "gain")
    for name, a, b in zip(gain.names, gain.federated, gain.alone, strict=True):
        more = a - b if a is not None and b is not None else None
        rows.add_row(name, percent(a), percent(b), percent(more, signed=True))
    return rows
