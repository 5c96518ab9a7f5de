"""Metrics of one site: what each is called, what it is made of, and which tasks have it.

`SITE_METRICS` is the one table of them. `METRICS` (AMP, FM, WLP, …) are then taken over the sites'
values of the one that `evaluation.metric` names; `over` says how those are read and shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedkf.metrics import METRICS, Metric, summarise
from fedkf.metrics import formulas as f
from fedkf.metrics.formulas import Formula, Statistic

ACCURACY = "accuracy"
CLASSES = ("classes", "two classes")
ONE_KIND = "the test samples of each are all of one kind"
"""Why a metric other than accuracy cannot be taken at any site."""


@dataclass(frozen=True)
class SiteMetric:
    """One number about one site."""

    name: str
    label: str
    about: str
    """What it says, in a few words that follow "the"."""
    statistic: str
    """What it is computed from."""
    formula: Formula
    targets: Sequence[str] = CLASSES
    """The kinds of targets that have it."""
    higher_is_better: bool = True
    percent: bool = True
    per_class: bool = False
    """A number for each class rather than one."""
    each: Formula | None = None
    """For a mean over classes: the formula of the classes' own values."""

    def show(self, value: float | None) -> str:
        """The number as tables have it, without its unit."""
        if value is None:
            return "–"
        return f"{100 * value:.1f}" if self.percent else f"{value:.4g}"

    @property
    def heading(self) -> str:
        """Its label with the unit that `show` leaves out."""
        return f"{self.label} %" if self.percent else self.label


_TABLE = (
    SiteMetric(ACCURACY, "accuracy", "share of cases that are right", "counts", f.accuracy),
    SiteMetric(
        "balanced_accuracy",
        "balanced accuracy",
        "mean over classes of the share of their cases that are right",
        "confusion",
        f.balanced_accuracy,
    ),
    SiteMetric("macro_f1", "macro F1", "mean F1 over classes", "confusion", f.macro_f1),
    SiteMetric(
        "sensitivity",
        "sensitivity",
        "share of each class's cases that are found",
        "confusion",
        f.sensitivity,
        per_class=True,
    ),
    SiteMetric(
        "auroc",
        "AUROC",
        "area under the ROC curve, of each class against the rest",
        "scores",
        f.auroc,
        each=f.auroc_each,
    ),
    SiteMetric(
        "average_precision",
        "average precision",
        "area under the precision-recall curve, of each class against the rest",
        "scores",
        f.average_precision,
        each=f.average_precision_each,
    ),
    SiteMetric(
        "ece",
        "calibration error",
        "mean distance of confidence from accuracy",
        "calibration",
        f.ece,
        higher_is_better=False,
    ),
    SiteMetric(
        "rmse",
        "RMSE",
        "root mean squared error",
        "errors",
        f.rmse,
        ("number",),
        higher_is_better=False,
        percent=False,
    ),
    SiteMetric("r2", "R²", "share of variance that is explained", "errors", f.r2, ("number",)),
    SiteMetric(
        "concordance",
        "concordance index",
        "share of comparable pairs that are in the right order",
        "pairs",
        f.concordance,
        ("time",),
    ),
)
SITE_METRICS: dict[str, SiteMetric] = {metric.name: metric for metric in _TABLE}
"""Every metric of a site by name, in the order of tables."""
OURS_OF_SITES = frozenset(SITE_METRICS)
"""Those that come with fedkf."""

HEADLINE = {"classes": ACCURACY, "two classes": "auroc", "number": "r2", "time": "concordance"}
"""What AMP, FM and WLP are over where nothing else is asked for, by kind of target."""
DEFAULT: dict[str, tuple[str, ...]] = {
    "classes": (),
    "two classes": (
        *(ACCURACY, "balanced_accuracy", "sensitivity", "auroc", "average_precision", "ece"),
    ),
    "number": ("rmse", "r2"),
    "time": ("concordance",),
}
"""What is computed at each site where nothing else is asked for. Of classes it is accuracy only."""


@dataclass(frozen=True)
class Judgement:
    """What sites are asked about their test samples, and what the headline is over."""

    metrics: Sequence[str] = ()
    metric: str = ACCURACY

    @property
    def statistics(self) -> tuple[str, ...]:
        """What sites must send for it, beside counts of correct and of tested samples."""
        needed = dict.fromkeys(SITE_METRICS[name].statistic for name in self.metrics)
        return tuple(name for name in needed if name != "counts")

    @property
    def scalars(self) -> list[SiteMetric]:
        """The metrics that are one number for a site."""
        found = [SITE_METRICS[name] for name in self.metrics]
        return [metric for metric in found if not metric.per_class]


def judgement(targets: str, metrics: Sequence[str] | None, metric: str | None) -> Judgement:
    """What a configuration asks for, in the order of the table.

    The metric of the headline is always among the others, but for plain accuracy, which every
    record has.
    """
    chosen = metric or HEADLINE[targets]
    wanted = {*(DEFAULT[targets] if metrics is None else metrics)}
    if chosen != ACCURACY:
        wanted.add(chosen)
    return Judgement([name for name in SITE_METRICS if name in wanted], chosen)


def value(metric: SiteMetric, statistics: Mapping[str, Statistic]) -> float | None:
    """The metric of one site, or None where it has none."""
    statistic = statistics.get(metric.statistic)
    if statistic is None:
        return None
    found = float(metric.formula(statistic))
    return found if math.isfinite(found) else None


def over(name: str) -> dict[str, Metric]:
    """AMP, FM, WLP and the rest as they are over a site's metric: how judged, named and shown."""
    about = SITE_METRICS.get(name, SITE_METRICS[ACCURACY])
    if about.name == ACCURACY:
        return METRICS
    found = {}
    for key, metric in METRICS.items():
        better = about.higher_is_better if metric.sided else metric.higher_is_better
        text = metric.about.replace(ACCURACY, about.label)
        found[key] = replace(metric, about=text, higher_is_better=better)
        if metric.percent and not about.percent:
            found[key] = replace(found[key], percent=False, digits=4)
    return found


def summary_of(
    name: str, values: Sequence[float | None], sizes: Sequence[float]
) -> dict[str, float | None]:
    """Every metric over the sites' values of one of theirs."""
    return summarise(values, sizes, SITE_METRICS[name].higher_is_better)
