"""Proposals: which setting a search tries next.

That depends on what a study has found so far and on nothing else: not on the number of jobs, nor on
whether the search was interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkf.core.random import Streams
from fedkf.runs.space import Interval, Parameters, Search, Space, Study
from fedkf.runs.trials import Trial

INSISTENCE = 10
"""How often the sampler may propose what was tried already."""
MOST_ATTEMPTS = 1000


def propose(search: Search, study: Study, past: Sequence[Trial]) -> Parameters:
    """What to try after these trials: first the suite's own setting, if it is in the space.

    Where there are no more settings than trials, all are tried; else Optuna's sampler proposes. If
    it insists on what was tried already, it has to go on without what it knows.
    """
    if not past and all(value in study.space[key] for key, value in study.own.items()):
        return study.own
    tried = [dict(trial.parameters) for trial in past]
    if study.settings <= search.trials:
        return next(s for k in range(len(tried) + 1) if (s := nth(study.space, k)) not in tried)
    for attempt in range(MOST_ATTEMPTS):
        number = Streams(search.seeds[0]).integer("search", len(past) + 1, attempt) % 2**32
        known = past if attempt < INSISTENCE else ()
        proposal = suggest(study.space, known, number, search.higher_is_better)
        if proposal not in tried:
            break
    return proposal


def nth(space: Space, index: int) -> Parameters:
    """One of a finite number of settings, the last key changing fastest."""
    found: Parameters = {}
    for key, axis in reversed(list(space.items())):
        index, place = divmod(index, int(axis.size))
        found[key] = axis.nth(place)
    return {key: found[key] for key in space}


def suggest(space: Space, past: Sequence[Trial], seed: int, higher: bool) -> Parameters:
    """What Optuna's TPE sampler makes of these trials; a failed one was worse than any other.

    The sampler is new each time, so that nothing but the trials and the seed counts.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {key: _distribution(axis) for key, axis in space.items()}
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed),
        direction="maximize" if higher else "minimize",
    )
    worst = -math.inf if higher else math.inf
    for trial in past:
        encoded = {key: _encode(space[key], value) for key, value in trial.parameters.items()}
        value = worst if trial.value is None else trial.value
        study.add_trial(
            optuna.trial.create_trial(params=encoded, distributions=distributions, value=value)
        )
    asked = study.ask(distributions).params
    return {key: _decode(space[key], asked[key]) for key in space}


def _distribution(axis: Any) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not isinstance(axis, Interval):  # by place, since Optuna does not take every kind of value
        return CategoricalDistribution(list(range(len(axis.values))))
    if axis.whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _encode(axis: Any, value: Any) -> Any:
    return value if isinstance(axis, Interval) else list(axis.values).index(value)


def _decode(axis: Any, value: Any) -> Any:
    return axis.rounded(value) if isinstance(axis, Interval) else axis.values[value]
