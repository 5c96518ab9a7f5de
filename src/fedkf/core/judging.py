"""Judging: the scores of a round from what its clients counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedkf.core.scores import Score, Sites, Values
from fedkf.metrics.formulas import Statistic
from fedkf.metrics.intervals import interval
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, Judgement, summary_of, value

if TYPE_CHECKING:
    from fedkf.core.random import Streams
    from fedkf.core.server import Counts

Statistics = Mapping[str, Statistic]


def scores(
    counts: Counts, judged: Judgement, of: int | None, labelled: bool, last: Streams | None
) -> dict[str, Score]:
    """Every readout's score.

    `last` is where the intervals of the last round draw from, None in any other; `of` the number of
    all clients where only some were asked; `labelled` whether there is anything to be right about.
    """
    found = {}
    for name, hits in counts.correct.items():
        pairs = list(zip(hits, counts.tested, strict=True))
        accuracy = [c / n if n and labelled else None for c, n in pairs]
        said = [{"counts": np.array([n, c])} for c, n in pairs]
        for statistics, tally in zip(said, counts.statistics.get(name, ()), strict=False):
            statistics |= {key: tensor.numpy() for key, tensor in tally.items()}
        sites = judged_sites(said, judged)
        if last is not None and judged.metrics:
            sites = with_details(sites, said, judged, streams_of(last, name, counts.clients))
        performance = accuracy if judged.metric == ACCURACY else sites.values[judged.metric]
        numbers = summary_of(judged.metric, performance, counts.tested)
        found[name] = Score(numbers, counts.clients, accuracy, of, judged.metric, sites)
    return found


def streams_of(streams: Streams, readout: str, clients: Sequence[int]) -> list[np.random.Generator]:
    """What each client's intervals are drawn with."""
    return [streams.numpy_generator(f"bootstrap {readout}", client=k) for k in clients]


def judged_sites(said: Sequence[Statistics], judged: Judgement) -> Sites:
    """The metrics of each client that are one number."""
    return Sites({m.name: [value(m, one) for one in said] for m in judged.scalars})


def with_details(
    sites: Sites,
    said: Sequence[Statistics],
    judged: Judgement,
    random: Sequence[np.random.Generator],
) -> Sites:
    """The same with intervals and, if it was asked for, how each class fares at each client."""
    intervals: dict[str, list[Values | None]] = {m.name: [] for m in judged.scalars}
    for one, stream in zip(said, random, strict=True):
        for metric in judged.scalars:
            intervals[metric.name].append(interval(metric, one, stream)[0])
    if "sensitivity" not in judged.metrics:
        return Sites(sites.values, intervals)
    about = SITE_METRICS["sensitivity"]
    support: list[list[int]] = []
    each: list[list[float | None]] = []
    ends: list[Sequence[Values | None]] = []
    for one, stream in zip(said, random, strict=True):
        if "confusion" not in one:
            support.append([])
            each.append([])
            ends.append([])
            continue
        support.append(one["confusion"].sum(1).tolist())
        shares = about.formula(one["confusion"])
        each.append([None if np.isnan(share) else float(share) for share in shares])
        ends.append(interval(about, one, stream))
    return Sites(sites.values, intervals, support, each, ends)
