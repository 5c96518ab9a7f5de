"""What a configuration asks of the sites' test samples."""

from __future__ import annotations

from fedkf.core.errors import UserError
from fedkf.core.objective import find
from fedkf.metrics.sites import SITE_METRICS, Judgement, judgement
from fedkf.runs.schema import Config


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
