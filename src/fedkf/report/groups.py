"""Groups of people within the data: who among them is served worse, across sites and within."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkf.core.groups import FEWEST_RARE, Group, GroupScores, Interval
from fedkf.metrics.sites import SITE_METRICS, SiteMetric
from fedkf.report.figures import model_label
from fedkf.report.runs import Run


def group_sections(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A section per column of `data.groups`, with a row per model and group."""
    sections: dict[str, dict[str, Any]] = {}
    for run in runs:
        for column, by_readout in run.summary.groups.items() if run.summary else ():
            for readout in run.readouts:
                scores = by_readout.get(readout)
                if scores is None or not scores.groups or scores.metric not in SITE_METRICS:
                    continue
                part = sections.setdefault(column, {"column": column, "rows": [], "says": []})
                model, metric = model_label(run, readout), SITE_METRICS[scores.metric]
                part["rows"] += [row(model, group, metric) for group in scores.groups]
                part["says"].append(sentence(model, scores, metric))
    return list(sections.values())


def row(model: str, group: Group, metric: SiteMetric) -> dict[str, Any]:
    """A group's number, and where it plausibly lies."""
    ends = group.interval
    return {
        "model": model,
        "group": group,
        "metric": metric.heading,
        "value": metric.show(group.value),
        "interval": None if ends is None else " to ".join(map(metric.show, ends)),
    }


def sentence(model: str, scores: GroupScores, metric: SiteMetric) -> str:
    """Who is served worst and best, whether that may be chance, and what is left within sites."""
    known = [(g.value, g) for g in scores.groups if g.value is not None and g.telling]
    if len(known) < 2:
        return f"{model}: too few cases to compare groups."
    known.sort(key=lambda pair: pair[0], reverse=not metric.higher_is_better)
    (low, worst), (high, best) = known[0], known[-1]
    unit = " %" if metric.percent else ""
    text = (
        f"{model}: by {metric.label}, {worst.name} is served worst ({metric.show(low)}{unit}) and "
        f"{best.name} best ({metric.show(high)}{unit})"
    )
    if may_be_chance(worst.interval, best.interval):
        text += ", which the number of cases does not rule out to be chance"
    if scores.within is not None:
        apart = f"{metric.show(scores.within)}{' points' if metric.percent else ''}"
        text += f"; within a site, groups are {apart} apart on average"
    return text + "." + left_out(scores.groups, metric)


def may_be_chance(one: Interval, two: Interval) -> bool:
    """Whether intervals overlap, or one is missing, as where all of a few cases are right."""
    return not one or not two or (one[1] >= two[0] and two[1] >= one[0])


def left_out(groups: Sequence[Group], metric: SiteMetric) -> str:
    """Groups that have a number which hangs on a few cases, in a sentence."""
    few = [group.name for group in groups if group.value is not None and not group.telling]
    if not few:
        return ""
    kind = "with an event" if tuple(metric.targets) == ("time",) else "of the rarer kind"
    return f" Not compared, with fewer than {FEWEST_RARE} cases {kind}: {', '.join(few)}."
