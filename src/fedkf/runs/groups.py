"""How the models of a run serve groups of people, on the clients' test samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedkf.core.evaluation import outputs, statistics_of
from fedkf.core.groups import GroupScores, Interval, group_scores
from fedkf.core.objective import uncommon
from fedkf.core.random import Streams
from fedkf.core.threads import threads
from fedkf.metrics.intervals import interval
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, value
from fedkf.runs.judging import judgement_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from fedkf.core.objective import Objective
    from fedkf.core.payload import Weights
    from fedkf.data.federated import FederatedData
    from fedkf.runs.assembly import Assembly


def judge_groups(
    assembly: Assembly, data: FederatedData, readouts: Mapping[str, Weights]
) -> dict[str, Mapping[str, GroupScores]]:
    """Each column of `data.groups`, each readout; nothing where no model is everybody's."""
    if not data.test_groups or not assembly.algorithm.shared_model:
        return {}
    found: dict[str, dict[str, GroupScores]] = {column: {} for column in data.test_groups}
    metric, objective = judgement_of(assembly.config).metric, assembly.task.objective
    for name, weights in readouts.items():
        model = assembly.task.load("student", weights).eval()
        for column, scores in by_groups(model, data, objective, metric).items():
            found[column][name] = scores
    return dict(found)


def by_groups(
    model: nn.Module, data: FederatedData, objective: Objective, metric: str
) -> dict[str, GroupScores]:
    """How one model serves the groups of each column, by one metric."""
    if not data.test_groups or not len(data.test_labels):
        return {}
    with threads(1):  # as clients count, whatever this process does otherwise
        device = next(model.parameters()).device
        made, labels = outputs(model, data.test_images.to(device)), data.test_labels
    about, random = SITE_METRICS[metric], Streams(0).numpy_generator("groups")

    def judge(rows: NDArray[np.int64]) -> tuple[float | None, Interval]:
        some, own = made[rows.tolist()], labels[rows.tolist()]
        said = statistics_of(some, own, objective, [about.statistic], data.classes)
        return value(about, said), interval(about, said, random)[0]

    def rare(rows: NDArray[np.int64]) -> int | None:
        return None if metric == ACCURACY else uncommon(objective, labels[rows.tolist()])

    ends = zip(data.names, data.test_offsets, data.test_offsets[1:], strict=False)
    sites = [(name, range(int(a), int(b))) for name, a, b in ends]
    return {
        name: group_scores(metric, judge, groups, sites, rare)
        for name, groups in data.test_groups.items()
    }
