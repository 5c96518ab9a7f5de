"""What a configuration asks of models, and of the sites' test samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from fedkf.core.errors import UserError, printable
from fedkf.core.objective import Objective, Regression, find
from fedkf.core.objects import import_object
from fedkf.metrics import Metric, register
from fedkf.metrics.own import add, described
from fedkf.metrics.sites import SITE_METRICS, Judgement, SiteMetric, judgement
from fedkf.runs.schema import Config

Value = TypeVar("Value")


def make_objective(config: Config) -> Objective:
    """What the task of a configuration asks of a model."""
    settings = config.data
    weights = settings.class_weights
    made = find(settings.task)
    if settings.task == Regression.name:
        centre, spread = settings.target_mean or 0.0, settings.target_std or 1.0
        return Regression(centre=centre, spread=spread)
    if isinstance(weights, str):
        return made(balanced=weights == "balanced")
    return made(weights=tuple(weights))


def judgement_of(config: Config) -> Judgement:
    """The metrics of each site, and the one that AMP, FM and WLP are over."""
    asked = asked_metrics(config)
    return judgement(find(config.data.task).targets, asked or None, headline_of(config))


def asked_metrics(config: Config) -> list[str]:
    """The names of the sites' metrics that data.metrics lists; none means the task's.

    Metrics over sites are computed whenever they are there, so that they choose nothing.
    """
    names = config.data.metrics or ()
    made = [own_metric(name, "data.metrics") if ":" in name else name for name in names]
    return [m if isinstance(m, str) else m.name for m in made if not isinstance(m, Metric)]


def headline_of(config: Config) -> str | None:
    """The name of the metric that evaluation.metric asks for."""
    name = config.evaluation.metric
    if name is None or ":" not in name:
        return name
    made = own_metric(name, "evaluation.metric")
    if isinstance(made, Metric) or made.per_class:
        raise UserError(
            f"evaluation.metric: {name} is no metric of one site with one number "
            "(fedkf.metrics.sites.SiteMetric); one over sites goes into data.metrics"
        )
    return made.name


def own_metric(name: str, key: str) -> Metric | SiteMetric:
    """The metric that `package.module:object` names, from now on in its table."""
    try:
        made = add(import_object(name, key))
    except ValueError as error:
        raise UserError(f"{key}: {name} {error}") from None
    what = f"{key}: {name}"
    if isinstance(made, Metric):
        function = made.function
        return register(
            replace(made, function=guarded(lambda *given: float(function(*given)), what))
        )
    guarded_one = replace(made, formula=guarded(made.formula, what))
    SITE_METRICS[made.name] = guarded_one
    return guarded_one


def guarded(function: Callable[..., Value], what: str) -> Callable[..., Value]:
    """A function of the user's own, whose mistakes are told as theirs."""

    def called(*given: Any) -> Value:
        try:
            return function(*given)
        except Exception as error:
            raise UserError(
                f"{what} fails ({type(error).__name__}: {printable(error)}) "
                f"on {printable(given[0], 200)}"
            ) from error

    return called


def add_own_metrics(config: Config) -> None:
    """Put all metrics of the user's own that a configuration names into their tables."""
    asked_metrics(config)
    headline_of(config)


def told_metrics(config: Config) -> dict[str, Any]:
    """What a run's provenance says of metrics that are not ours, so that others can show them."""
    add_own_metrics(config)
    own = described()
    return {"metrics": own} if own else {}


def check_metrics(config: Config) -> None:
    """Refuse metrics that the task does not have."""
    targets = find(config.data.task).targets
    headline = headline_of(config)
    given = {"data.metrics": asked_metrics(config)}
    given["evaluation.metric"] = [] if headline is None else [headline]
    fitting = [name for name, about in SITE_METRICS.items() if targets in about.targets]
    for key, names in given.items():
        for name in names:
            if name not in fitting:
                raise UserError(
                    f"{key} has {name}, which data.task {config.data.task} does not have; it has "
                    f"{', '.join(fitting)}"
                )
