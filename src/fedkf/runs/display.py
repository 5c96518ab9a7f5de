"""A result as people look at it: a table in a terminal, a table with curves in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedkf.core.records import Round
from fedkf.core.scores import Score
from fedkf.metrics import PAPER
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, over

WIDTH, HEIGHT = 360, 120
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def rows_of(summary: Mapping[str, Any]) -> list[list[str]]:
    """A row of headings, then one per readout; the paper's metrics, so that it stays narrow."""
    about = over(summary.get("metric", ACCURACY))
    metrics = [about[name] for name in PAPER]
    rows = [["readout", *(metric.heading for metric in metrics)]]
    for readout, score in summary["readouts"].items():
        rows.append([readout.upper(), *(metric.show(score.get(metric.name)) for metric in metrics)])
    return rows


def title(summary: Mapping[str, Any], rounds: Sequence[Round]) -> str:
    """What was run, in a line."""
    count = summary["rounds"]
    clients = max((len(s.clients) for s in (rounds[-1].readouts or {}).values()), default=0)
    told = f", {clients} clients" if clients else ""
    word = "round" if count == 1 else "rounds"
    metric = summary.get("metric", ACCURACY)
    judged = "" if metric == ACCURACY else f", by {SITE_METRICS[metric].label}"
    return f"{summary['algorithm']}: {count} {word}, seed {summary['seed']}{told}{judged}"


def held_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """A row of headings, then one per site that took no part; nothing where there is none."""
    held = summary.get("holdout")
    if held is None:
        return []
    about = SITE_METRICS[summary.get("metric", ACCURACY)]
    scores = {name: Score.read(score).performance for name, score in held["readouts"].items()}
    rows = [["held out", "tested", *(f"{name.upper()} {about.heading}" for name in scores)]]
    for k, (name, tested) in enumerate(zip(held["sites"], held["tested"], strict=True)):
        rows.append([str(name), str(tested), *(about.show(found[k]) for found in scores.values())])
    return rows


def spent(rounds: Sequence[Round], delta: float) -> str:
    """What the client that gave most has spent of its privacy, in a line; else nothing."""
    most = max((e for r in rounds if r.privacy for e in r.privacy.epsilon), default=None)
    told = f"privacy: no client has spent more than ε = {{:.3g}} with δ = {delta:g}"
    return "" if most is None else told.format(most)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))] if rows else []
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def as_text(summary: Mapping[str, Any], rounds: Sequence[Round], delta: float = 0.0) -> str:
    """Small tables; never the weights. `delta` is that of the privacy, if there was any."""
    lines = [title(summary, rounds), *aligned(rows_of(summary)), *aligned(held_rows(summary))]
    return "\n".join([*lines, *filter(None, [spent(rounds, delta)])])


def markup(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table of HTML, the first as its head; nothing without rows."""
    kinds = ["th", *["td"] * len(rows)]
    made = [
        f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in row)}</tr>"
        for kind, row in zip(kinds, rows, strict=False)
    ]
    return f"<table>{''.join(made)}</table>" if rows else ""


def as_html(
    summary: Mapping[str, Any],
    rounds: Sequence[Round],
    partition: Mapping[str, Any],
    delta: float = 0.0,
) -> str:
    """The tables, the average and the worst client over the rounds, and every client's accuracy."""
    told = spent(rounds, delta)
    names = [str(client.get("name", "")) for client in partition.get("clients", [])]
    return (
        f"<p><b>{escape(title(summary, rounds))}</b></p>{markup(rows_of(summary))}"
        f"{markup(held_rows(summary))}{f'<p>{escape(told)}</p>' if told else ''}"
        f"{curves(rounds)}{bars(rounds, names)}"
    )


def measured(rounds: Sequence[Round]) -> str:
    """What of the clients the numbers are over."""
    return next((s.metric for s in (rounds[-1].readouts or {}).values()), ACCURACY)


def curves(rounds: Sequence[Round]) -> str:
    """AMP (solid) and WLP (dashed) of each readout over the rounds."""
    scored = [r for r in rounds if r.readouts]
    metric = measured(rounds)
    if len(scored) < 2 or not SITE_METRICS[metric].percent:
        return ""
    first, last = scored[0].round, scored[-1].round
    lines, legend = [], []
    for number, readout in enumerate(scored[-1].readouts or {}):
        colour = COLOURS[number % len(COLOURS)]
        for name, dash in (("amp", ""), ("wlp", ' stroke-dasharray="4 3"')):
            points = []
            for r in scored:
                score = (r.readouts or {}).get(readout)
                value = None if score is None else score[name]
                if value is not None:
                    x = WIDTH * (r.round - first) / (last - first)
                    points.append(f"{x:.1f},{HEIGHT * (1 - max(0.0, value)):.1f}")
            line = f'<polyline fill="none" stroke="{colour}" points="{" ".join(points)}"{dash}/>'
            lines.append(line)
        legend.append(f'<span style="color:{colour}">{escape(readout.upper())}</span>')
    label = SITE_METRICS[metric].label
    words = f"{label}, rounds {first} to {last}: average (solid) and worst client (dashed)"
    return picture("".join(lines), f"{words}; {' '.join(legend)}")


def bars(rounds: Sequence[Round], names: Sequence[str]) -> str:
    """What every client gets from the last round's overall model, worst first."""
    metric = SITE_METRICS[measured(rounds)]
    scores = rounds[-1].readouts or {}
    score = scores.get("oca") or next(iter(scores.values()), None)
    pairs = [] if score is None else zip(score.clients, score.performance, strict=True)
    known = sorted((a, k) for k, a in pairs if a is not None)
    if not known or not metric.percent:
        return ""
    step = WIDTH / len(known)
    drawn = []
    for place, (accuracy, client) in enumerate(known):
        name = names[client] if client < len(names) else f"client {client}"
        height = HEIGHT * max(0.0, accuracy)
        drawn.append(
            f'<rect x="{place * step:.1f}" y="{HEIGHT - height:.1f}" '
            f'width="{max(0.5, step - 1):.1f}" height="{height:.1f}" '
            f'fill="{COLOURS[0]}"><title>{escape(name)}: {100 * accuracy:.1f} %</title></rect>'
        )
    return picture("".join(drawn), f"{metric.label} of every client, the worst first")


def picture(content: str, caption: str) -> str:
    """A drawing with a line around it and words below."""
    return (
        f'<figure style="display:inline-block;margin:8px"><svg width="{WIDTH}" height="{HEIGHT}" '
        f'style="border:1px solid #999">{content}</svg><figcaption><small>{caption}</small>'
        "</figcaption></figure>"
    )
