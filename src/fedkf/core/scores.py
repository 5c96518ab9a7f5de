"""Scores: the numbers of a readout in a round, and of which clients they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedkf.core.shapes import (
    Damage,
    accuracies,
    finite,
    many,
    mapping,
    maybe,
    named,
    take,
    text,
    whole,
)
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY, SITE_METRICS

Values = Sequence[float | None]


@dataclass(frozen=True)
class Numbers:
    """Every metric of a readout, by name; None where no client has test data."""

    values: Mapping[str, float | None]

    def __getitem__(self, metric: str) -> float | None:
        """The metric's number, or None where there is none."""
        return self.values.get(metric)

    def completed(self, other: Numbers | None) -> Numbers:
        """These, and the other's where a metric is not among them."""
        return Numbers({**other.values, **self.values}) if other else self

    @staticmethod
    def read(content: object) -> Numbers:
        return Numbers(read_values(mapping(content)))


def read_values(content: Mapping[str, Any]) -> dict[str, float | None]:
    """What of an object are metrics: the paper's three at least, if only as null."""
    names = [name for name in METRICS if name in content]
    return {name: take(content, name, maybe(finite)) for name in names}


@dataclass(frozen=True)
class Sites:
    """What each client's test samples say beside accuracy: lists with a place for every client."""

    values: Mapping[str, Values] = field(default_factory=dict)
    """The metrics of `data.metrics`; None where a client has none."""
    intervals: Mapping[str, Sequence[Values | None]] = field(default_factory=dict)
    """Where they plausibly lie, lower and upper end; after the last round."""
    support: Sequence[Sequence[int]] = ()
    """Test samples of each class; after the last round, with the next."""
    sensitivity: Sequence[Values] = ()
    """The share of each class that was found."""
    sensitivity_intervals: Sequence[Sequence[Values | None]] = ()
    clients: Sequence[int] = ()
    """Whose places these are, where nothing beside them says it."""

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    @staticmethod
    def read(content: object) -> Sites:
        found = mapping(content)
        values, ends = many(maybe(finite)), maybe(many(finite))
        kinds: dict[str, Any] = {
            "values": named(values),
            "intervals": named(many(ends)),
            "support": many(many(whole)),
            "sensitivity": many(values),
            "sensitivity_intervals": many(many(ends)),
            "clients": many(whole),
        }
        return Sites(**{k: take(found, k, kind) for k, kind in kinds.items() if k in found})


@dataclass(frozen=True)
class Score(Numbers):
    """The metrics of a readout, with the accuracy of each client that they are of."""

    clients: Sequence[int] = ()
    accuracy: Values = ()
    """None for a client without test data, and for all where the task has no classes."""
    of: int | None = None
    """The number of all clients, where those above are only some of them."""
    metric: str = ACCURACY
    """What of the clients the metrics are over."""
    sites: Sites = Sites()

    @property
    def performance(self) -> Values:
        """Each client's value of what the metrics are over."""
        return self.accuracy if self.metric == ACCURACY else self.sites.values[self.metric]

    def as_json(self) -> dict[str, Any]:
        rest: dict[str, Any] = {} if self.of is None else {"of": self.of}
        if self.metric != ACCURACY:
            rest["metric"] = self.metric
        if sites := self.sites.as_json():
            rest["sites"] = sites
        return {**self.values, "clients": self.clients, "accuracy": self.accuracy, **rest}

    def judged(self) -> dict[str, int]:
        """Of how many clients the numbers are, where they are not of all."""
        return {} if self.of is None else {"judged": len(self.clients), "of": self.of}

    def without_clients(self) -> Score:
        """The numbers alone, for those who keep many."""
        none: Values = ()
        sites = Sites({self.metric: none}) if self.metric != ACCURACY else Sites()
        return replace(self, clients=(), accuracy=(), sites=sites)

    @staticmethod
    def read(content: object) -> Score:
        found = mapping(content)
        clients, accuracy = take(found, "clients", many(whole)), take(found, "accuracy", accuracies)
        if len(clients) != len(accuracy):
            raise Damage("must be as many as clients", ("accuracy",))
        of = take(found, "of", maybe(whole)) if "of" in found else None
        metric = take(found, "metric", text) if "metric" in found else ACCURACY
        sites = take(found, "sites", Sites.read) if "sites" in found else Sites()
        if metric != ACCURACY and len(sites.values.get(metric, ())) != len(clients):
            raise Damage("must be as many as clients", ("sites", "values", metric))
        score = Score(read_values(found), clients, accuracy, of, metric, sites)
        return replace(score, values=score._completed())

    def _completed(self) -> dict[str, float | None]:
        """The metrics, with those that were not there yet when the record was made."""
        values, about = dict(self.values), SITE_METRICS.get(self.metric)
        if about is not None and any(a is not None for a in self.performance):
            for metric in METRICS.values():
                if metric.name not in values and not metric.weighted:
                    values[metric.name] = metric.compute(
                        self.performance, (), about.higher_is_better
                    )
        return values


def performance_of(score: Mapping[str, Any]) -> list[float | None]:
    """Each client's value of what the metrics are over, of a score as JSON has it."""
    named_ = score.get("metric", ACCURACY)
    found: list[float | None] = score["accuracy"]
    return found if named_ == ACCURACY else score["sites"]["values"][named_]


@dataclass(frozen=True)
class Best(Numbers):
    """The numbers of the round with the best AMP."""

    round: int = 0

    @staticmethod
    def read(content: object) -> Best:
        found = mapping(content)
        return Best(read_values(found), take(found, "round", whole))
