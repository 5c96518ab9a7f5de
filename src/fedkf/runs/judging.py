"""What a configuration asks of models, and of the sites' test samples."""

from __future__ import annotations

from fedkf.core.errors import UserError
from fedkf.core.objective import Objective, Regression, find
from fedkf.metrics.sites import SITE_METRICS, Judgement, judgement
from fedkf.runs.schema import Config


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
    return judgement(find(config.data.task).targets, config.data.metrics, config.evaluation.metric)


def check_metrics(config: Config) -> None:
    """Refuse metrics that the task does not have."""
    targets = find(config.data.task).targets
    given = {"data.metrics": config.data.metrics or (), "evaluation.metric": []}
    if config.evaluation.metric is not None:
        given["evaluation.metric"] = [config.evaluation.metric]
    fitting = [name for name, about in SITE_METRICS.items() if targets in about.targets]
    for key, names in given.items():
        for name in names:
            if name not in fitting:
                raise UserError(
                    f"{key} has {name}, which data.task {config.data.task} does not have; it has "
                    f"{', '.join(fitting)}"
                )
