"""How accurate a model is over all clients, and how fair: AMP, FM, WLP and what else users ask for.

`METRICS` is the one table of them. Records, tables, report, dashboard and figures follow it, so
that a new entry shows up everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "METRICS",
    "PAPER",
    "Metric",
    "amp",
    "fm",
    "gini",
    "register",
    "summarise",
    "wlp",
    "worst10",
]

Accuracies = Sequence[float | None]


def _tested(accuracies: Accuracies) -> list[float]:
    known = [a for a in accuracies if a is not None and not math.isnan(a)]
    if not known:
        raise ValueError("no client has test data, so there is no accuracy to summarise")
    return known


def amp(accuracies: Accuracies, sizes: Sequence[float] | None = None) -> float:
    """Average model performance: the mean accuracy, each client weighted by its test size.

    >>> round(amp([0.5, 1.0], sizes=[1, 3]), 3)
    0.875
    """
    _tested(accuracies)
    weights = [1.0] * len(accuracies) if sizes is None else list(sizes)
    if len(weights) != len(accuracies):
        raise ValueError(f"{len(accuracies)} accuracies but {len(weights)} sizes")
    pairs = [
        (a, n)
        for a, n in zip(accuracies, weights, strict=True)
        if a is not None and not math.isnan(a)
    ]
    return math.fsum(a * n for a, n in pairs) / math.fsum(n for _, n in pairs)


def fm(accuracies: Accuracies) -> float:
    """Fairness metric: the population variance of the accuracies; smaller is fairer.

    >>> round(fm([0.6, 0.7, 0.8]), 5)
    0.00667
    """
    known = _tested(accuracies)
    mean = math.fsum(known) / len(known)
    return math.fsum((a - mean) ** 2 for a in known) / len(known)


def wlp(accuracies: Accuracies) -> float:
    """Worst-case local performance: the accuracy of the client that is served worst.

    >>> wlp([0.6, 0.7, 0.8])
    0.6
    """
    return min(_tested(accuracies))


def worst10(accuracies: Accuracies) -> float:
    """The mean accuracy of the worst tenth of the clients, of one client at least.

    Tenths are rounded up: of eleven clients the worst two count.

    >>> worst10([k / 20 for k in range(20)])
    0.025
    """
    known = sorted(_tested(accuracies))
    count = math.ceil(len(known) / 10)
    return math.fsum(known[:count]) / count


def gini(accuracies: Accuracies) -> float:
    """The Gini coefficient of the accuracies: 0 if all are equal, near 1 if one client has it all.

    >>> gini([0.5, 0.5]), gini([0.0, 1.0])
    (0.0, 0.5)
    """
    known = sorted(_tested(accuracies))
    total, count = math.fsum(abs(a) for a in known), len(known)
    if not total:
        return 0.0
    ranked = math.fsum((2 * k - count - 1) * a for k, a in enumerate(known, 1))
    return max(0.0, ranked / (count * total))


@dataclass(frozen=True)
class Metric:
    """One number about all clients of a round: how it is computed, named, judged and shown."""

    name: str
    """Its key in records."""
    label: str
    """Its name in tables and figures."""
    about: str
    """What it says, in a few words that follow "the"."""
    function: Callable[..., float]
    """Takes the clients' accuracies and, if `weighted`, their test sizes."""
    hint: str = ""
    """A word or two for below its label at the head of a column."""
    higher_is_better: bool = True
    weighted: bool = False
    percent: bool = True
    """Shown in percent; as it is otherwise."""
    digits: int = 1
    """Digits after the point when shown."""
    sided: bool = False
    """In the sites' own unit and on their better or worse side, which may be the lower one."""

    def compute(
        self, accuracies: Accuracies, sizes: Sequence[float], higher_is_better: bool = True
    ) -> float | None:
        """The number; where lower is better for the sites, of those that are highest as worst.

        None where the function comes to none, such as to NaN.
        """
        if not higher_is_better and self.sided:
            turned = [None if a is None else -a for a in accuracies]
            found = self.compute(turned, sizes)
            return None if found is None else 0.0 - found
        value = self.function(accuracies, sizes) if self.weighted else self.function(accuracies)
        return value if math.isfinite(value) else None

    @property
    def heading(self) -> str:
        """Its label with the unit that `show` leaves out."""
        return f"{self.label} %" if self.percent and "%" not in self.label else self.label

    def show(self, value: float | None) -> str:
        """The number as tables have it, without its unit.

        >>> METRICS["amp"].show(0.9263), METRICS["fm"].show(0.0036), METRICS["wlp"].show(None)
        ('92.6', '0.0036', '–')
        """
        if value is None:
            return "–"
        return f"{100 * value if self.percent else value:.{self.digits}f}"


def uncomputed(*values: object) -> float:
    """In the place of a function that is not here: such a metric is shown where it was recorded."""
    raise ValueError("the function of this metric is not here")


METRICS: dict[str, Metric] = {}
"""Every metric by name, in the order of tables."""
PAPER = ("amp", "fm", "wlp")
"""The paper's own (Definitions 1 to 3), which headlines show."""


def register(metric: Metric) -> Metric:
    """Add a metric to the table; from then on every round has it."""
    if not metric.name.isidentifier():
        raise ValueError(f"a metric's name is a word, not {metric.name!r}")
    METRICS[metric.name] = metric
    return metric


register(
    Metric(
        "amp",
        "AMP",
        "mean accuracy, clients weighted by test size",
        amp,
        "average",
        weighted=True,
        sided=True,
    )
)
register(
    Metric(
        "fm",
        "FM",
        "variance of accuracy between clients",
        fm,
        "variance",
        higher_is_better=False,
        percent=False,
        digits=4,
    )
)
register(Metric("wlp", "WLP", "accuracy of the worst client", wlp, "worst site", sided=True))
register(
    Metric(
        "worst10",
        "Worst 10 %",
        "mean accuracy of the worst tenth of clients",
        worst10,
        "mean",
        sided=True,
    )
)
register(
    Metric(
        "gini",
        "Gini",
        "Gini coefficient of accuracy over clients",
        gini,
        "inequality",
        higher_is_better=False,
        percent=False,
        digits=3,
    )
)


OURS = frozenset(METRICS)
"""Those that come with fedkf."""


def summarise(
    accuracies: Accuracies, sizes: Sequence[float], higher_is_better: bool = True
) -> dict[str, float | None]:
    """Every metric of the clients' accuracies, or of whatever else they are judged by.

    None for all where no client has test data.
    """
    known = any(a is not None for a in accuracies)
    return {
        m.name: m.compute(accuracies, sizes, higher_is_better) if known else None
        for m in METRICS.values()
        if m.function is not uncomputed
    }
