"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from fedkf.core.holdings import Partition
from fedkf.core.records import Summary
from fedkf.core.scores import Score
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, SiteMetric, over

if TYPE_CHECKING:
    from fedkf.core.records import Round
    from fedkf.runs.comparison import Gain
    from fedkf.runs.store import RunFolder

MILESTONES = 5
MOST_SITES, NAMED = 20, 8
"""More clients than this are left to the report."""


def table(title: str, *columns: str, texts: Collection[str] = ()) -> Table:
    """An empty table: texts in the first column and in `texts`, numbers in the others.

    Where a terminal is too narrow cells go on below; nothing is cut off.
    """
    made = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )
    for index, column in enumerate(columns):
        left = index == 0 or column in texts
        made.add_column(column, justify="left" if left else "right", overflow="fold")
    return made


def percent(value: float | None, signed: bool = False) -> str:
    """A fraction in percent, or a dash where there is none."""
    if value is None:
        return "–"
    return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"


def scores(values: Mapping[str, float | None], over_: str = ACCURACY) -> str:
    """The metrics of one readout in a few words."""
    known = [metric for metric in over(over_).values() if metric.name in values]
    return ", ".join(f"{metric.label} {metric.show(values[metric.name])}" for metric in known)


def results_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """Every metric of every algorithm and readout, and what of the sites they are over."""
    kinds = dict.fromkeys(summary.get("metric", ACCURACY) for summary in summaries.values())
    about = over(next(iter(kinds), ACCURACY)) if len(kinds) < 2 else METRICS
    named = [SITE_METRICS[kind].label for kind in kinds if kind in SITE_METRICS]
    title = "" if kinds.keys() <= {ACCURACY} else f"over the clients' {' or '.join(named)}"
    made = table(title, "algorithm", "readout", *(metric.heading for metric in about.values()))
    for name, summary in summaries.items():
        for readout, score in summary["readouts"].items():
            if score["amp"] is None:
                judged = summary.get("metric", ACCURACY)
                told = "no test data" if judged == ACCURACY else "no client's test data can tell"
                made.add_row(name, readout.upper(), told)
                continue
            shown = over(summary.get("metric", ACCURACY)).values()
            numbers = [metric.show(score.get(metric.name)) for metric in shown]
            part = f" ({score['judged']} of {score['of']} clients)" if "of" in score else ""
            made.add_row(name, readout.upper() + part, *numbers)
    return made


def holdout_table(summary: Mapping[str, Any]) -> Table | None:
    """What the models do at sites that took no part; None where none was held out."""
    held = summary.get("holdout")
    if held is None:
        return None
    readouts = {name: Score.read(score) for name, score in held["readouts"].items()}
    about = SITE_METRICS[summary.get("metric", ACCURACY)]
    heads = [f"{name.upper()} {about.heading}" for name in readouts]
    made = table("held out: not trained on", "site", "tested", *heads)
    for k, (name, tested) in enumerate(zip(held["sites"], held["tested"], strict=True)):
        numbers = [about.show(score.performance[k]) for score in readouts.values()]
        made.add_row(name, str(tested), *numbers)
    return made


def sites_table(run: RunFolder) -> Table | None:
    """Each client's metrics under the readout that `fedkf export` takes, the headline's first.

    That one is shown with its interval; the report has all of them, with theirs.
    None where nothing but accuracy was asked for, or where there are too many for a terminal.
    """
    summary = run.read_record("summary.json", Summary.read)
    readout = next((name for name in ("oca", "aca") if name in summary.sites), "")
    if not readout or len(summary.sites[readout].clients) > MOST_SITES:
        return None
    sites, holders = summary.sites[readout], run.read_record("partition.json", Partition.read)
    known = [SITE_METRICS[name] for name in sites.values if name in SITE_METRICS]
    known.sort(key=lambda metric: metric.name != summary.metric)
    known = known[:4]  # as many as a terminal is wide
    title = f"each client under {readout.upper()}, with the 95 % interval of {known[0].label}"
    made = table(title, "client", "tested", *(metric.heading for metric in known))
    made.columns[2].no_wrap = True
    for place, k in enumerate(sites.clients):
        holder = holders.clients[k]
        others = [metric.show(sites.values[metric.name][place]) for metric in known[1:]]
        ends = sites.intervals.get(known[0].name)
        value = sites.values[known[0].name][place]
        first = spanned(known[0], value, ends[place] if ends else None)
        made.add_row(holder.name, str(holder.test), first, *others)
    return made


def unknown(run: RunFolder) -> list[str]:
    """What the test samples of some clients cannot tell, in a sentence for each metric."""
    summary = run.read_record("summary.json", Summary.read)
    readout = next((name for name in ("oca", "aca") if name in summary.sites), "")
    if not readout:
        return []
    sites, holders = summary.sites[readout], run.read_record("partition.json", Partition.read)
    sentences = []
    for name, values in sites.values.items():
        pairs = zip(sites.clients, values, strict=True)
        told = [holders.clients[k].name for k, v in pairs if v is None and holders.clients[k].test]
        if told:
            named = ", ".join(told[:NAMED]) + (" …" if len(told) > NAMED else "")
            label = SITE_METRICS[name].label if name in SITE_METRICS else name
            sentences.append(f"{label} cannot be said of {named}: too few kinds of test samples")
    return sentences


def spanned(metric: SiteMetric, value: float | None, ends: Sequence[float | None] | None) -> str:
    """One client's value, and where it plausibly lies if that is known.

    >>> spanned(SITE_METRICS["auroc"], 0.9, (0.85, 0.94))
    '90.0 [85.0, 94.0]'
    """
    text = metric.show(value)
    return f"{text} [{metric.show(ends[0])}, {metric.show(ends[1])}]" if ends else text


def group_tables(groups: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """How each group fares under each readout, a table for each column of data.groups."""
    made = []
    for column, by_readout in groups.items():
        scores = list(by_readout.values())
        about = SITE_METRICS[scores[0]["metric"]]
        heads = [f"{name.upper()} {about.heading}" for name in by_readout]
        rows = table(f"by {column}", "group", "tested", *heads)
        for k, group in enumerate(scores[0]["groups"]):
            told = [about.show(score["groups"][k]["value"]) for score in scores]
            rows.add_row(group["name"], str(group["tested"]), *told)
        for title, key in (("largest gap", "gap"), ("largest gap within a site, mean", "within")):
            rows.add_row(title, "", *(about.show(score[key]) for score in scores))
        made.append(rows)
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
    readouts = [r for r in rounds if r.readouts][-1].readouts or {}
    metric = over(next((score.metric for score in readouts.values()), ACCURACY))["amp"]
    unit = " %" if metric.percent else ""
    heads = [f"{metric.label} {readout.upper()}{unit}" for readout in readouts]
    made = table("on the way", "round", "time", "MB sent", *heads)
    count = min(MILESTONES, len(rows))
    for k in range(1, count + 1):
        round, spent, sent, values = rows[k * len(rows) // count - 1]
        cells = [metric.show(value) for value in values]
        made.add_row(str(round), str(timedelta(seconds=int(spent))), f"{sent:.1f}", *cells)
    return made


def gain_table(gain: Gain) -> Table:
    """What federating gains each client over training alone."""
    metric = SITE_METRICS[gain.metric]
    what = "" if gain.metric == ACCURACY else f", {metric.label}"
    unit = " %" if metric.percent else ""
    heads = (f"federated{unit}", f"alone{unit}", "gain")
    rows = table(f"gain of federating: {gain.title}{what}", "client", *heads)
    for name, a, b in zip(gain.names, gain.federated, gain.alone, strict=True):
        more = a - b if a is not None and b is not None else None
        if more is not None and not metric.higher_is_better:
            more = -more
        sign = "+" if more is not None and more >= 0 else ""
        rows.add_row(name, metric.show(a), metric.show(b), sign + metric.show(more))
    return rows
