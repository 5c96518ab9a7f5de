"""What a search may try: the `search:` section of a suite, read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkf.core.errors import UserError, nearest
from fedkf.core.limits import shown
from fedkf.metrics import METRICS
from fedkf.runs.config import flatten
from fedkf.runs.schema import Config
from fedkf.runs.suite import MOST_RUNS, SEEDS, Plan, Suite, make_plan, name_of

KEYS = ("trials", "objective", "seeds", "rounds", "common", "space")
READOUTS = ("oca", "aca")
MOST_TRIALS = 1000
FIRST_SEED = 1000
"""Where seeds of a search are looked for, far from those that a grid usually has."""
COMPARED = (
    *("data.", "engine.", "evaluation.", "output.", "fidelity", "config"),
    *("algorithm.name", "model.name"),
    *("federation.seed", "federation.rounds", "federation.evaluate"),
)
"""How keys begin that say what is compared; a search changes how an algorithm is set."""


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    @property
    def size(self) -> float:
        """How many values there are."""
        return self.high - self.low + 1 if self.whole else math.inf

    def __contains__(self, value: object) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high  # type: ignore[operator]

    def nth(self, index: int) -> int:
        return int(self.low) + index

    def rounded(self, value: float) -> float:
        """With as many digits as matter, so that a table can tell the value exactly.

        >>> Interval(0, 1).rounded(1 / 3), Interval(1e-5, 1, log=True).rounded(0.000123456)
        (0.333, 0.0001235)
        """
        if self.whole:
            return value
        decimals = 3 - math.floor(math.log10(self.high - self.low))
        near = float(f"{value:.4g}") if self.log else round(value, decimals)
        return min(max(near, self.low), self.high)

    def as_json(self) -> Any:
        return {"low": self.low, "high": self.high, "log": self.log, "whole": self.whole}


@dataclass(frozen=True)
class Choices:
    """A few values of any kind."""

    values: Sequence[Any]

    @property
    def size(self) -> float:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def nth(self, index: int) -> Any:
        return self.values[index]

    def as_json(self) -> Any:
        return list(self.values)


Space = Mapping[str, Interval | Choices]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """One algorithm at one place of the grid, whatever the seeds: what is tuned for itself."""

    name: str
    point: Mapping[str, Any]
    plans: Sequence[Plan]
    """The runs of the comparison that get what is found."""
    space: Space
    suite: Suite = field(repr=False)

    @property
    def algorithm(self) -> str:
        return self.plans[0].config.algorithm.name

    @property
    def settings(self) -> int | float:
        """How many settings there are to try."""
        return math.prod(axis.size for axis in self.space.values())

    @property
    def own(self) -> Parameters:
        """What the suite says without a search."""
        flat = flatten(self.plans[0].config)
        return {key: flat.get(key) for key in self.space}

    def configured(self, more: Mapping[str, Any]) -> Config:
        """The suite's configuration here, with some keys changed."""
        return make_plan(self.suite.base, self.suite.overrides, {**self.point, **more}).config


@dataclass(frozen=True)
class Search:
    """How every algorithm of a suite is tuned: all alike."""

    trials: int
    metric: str
    readout: str
    seeds: Sequence[int]
    rounds: int | None
    studies: Sequence[Study]

    @property
    def higher_is_better(self) -> bool:
        return METRICS[self.metric].higher_is_better

    def budget(self, study: Study) -> int:
        """Trials of a study: the same for all, unless there are fewer settings to try."""
        return int(min(self.trials, study.settings))

    def config(self, study: Study, parameters: Mapping[str, Any], seed: int) -> Config:
        """One run of a trial."""
        rounds = {} if self.rounds is None else {"federation.rounds": self.rounds}
        return study.configured({**parameters, **rounds, **dict.fromkeys(SEEDS, seed)})


# -- reading ---------------------------------------------------------------------------------------


def read_search(suite: Suite) -> Search | None:
    """What a suite says under `search:`, or None where it has none."""
    if suite.search is None:
        return None
    given = _mapping("search", suite.search)
    for key in given:
        if key not in KEYS:
            raise UserError(f"search: no key {key!r}; {nearest(key, KEYS)}")
    trials = _count("search.trials", given.get("trials", 20), MOST_TRIALS)
    rounds = given.get("rounds")
    metric, readout = _objective(given.get("objective", {}))
    search = Search(
        trials,
        metric,
        readout,
        _seeds(given.get("seeds"), suite.plans),
        None if rounds is None else _count("search.rounds", rounds, 10**9),
        _studies(suite, given),
    )
    runs = len(search.seeds) * sum(map(search.budget, search.studies))
    if runs > MOST_RUNS:
        raise UserError(f"search: it makes {runs:,} runs; at most {MOST_RUNS:,} are taken")
    return search


def _objective(given: Any) -> tuple[str, str]:
    given = _mapping("search.objective", given)
    for key in given:
        if key not in ("metric", "readout"):
            raise UserError(f"search.objective: no key {key!r}; it takes metric and readout")
    metric, readout = given.get("metric", "amp"), given.get("readout", "oca")
    for key, value, allowed in (("metric", metric, METRICS), ("readout", readout, READOUTS)):
        if not isinstance(value, str) or value not in allowed:
            raise UserError(
                f"search.objective.{key} is {shown(value)}; it must be one of {', '.join(allowed)}"
            )
    return metric, readout


def _seeds(given: Any, plans: Sequence[Plan]) -> list[int]:
    """Seeds that no run of the comparison has, neither for its data nor for itself."""
    used = {p.config.federation.seed for p in plans} | {p.config.data.seed for p in plans}
    free = next(s for s in range(FIRST_SEED, FIRST_SEED + len(used) + 1) if s not in used)
    if given is None:
        return [free]
    if not isinstance(given, list) or not given:
        raise UserError(f"search.seeds is {shown(given)}; it must be a list, such as [{free}]")
    for seed in given:
        if type(seed) is not int or not 0 <= seed < 2**63:
            raise UserError(f"search.seeds: {shown(seed)} must be a whole number of at least 0")
        if seed in used:
            raise UserError(
                f"search.seeds: {seed} is a seed of the comparison, which a search must not see; "
                f"take another, such as {free}"
            )
    if len(set(given)) < len(given):
        raise UserError(f"search.seeds is {shown(given)}; no seed may be there twice")
    return given


def _studies(suite: Suite, given: Mapping[str, Any]) -> list[Study]:
    common = _mapping("search.common", given.get("common", {}))
    spaces = _mapping("search.space", given.get("space", {}))
    present = {plan.config.algorithm.name for plan in suite.plans}
    for name in spaces:
        if name not in present:
            raise UserError(
                f"search.space: no algorithm {name!r} in this suite; {nearest(name, present)}"
            )
        _mapping(f"search.space.{name}", spaces[name])
    if not common and not any(spaces.values()):
        raise UserError("search: `common:` and `space:` name nothing that could be searched")
    for key in [*common, *(key for own in spaces.values() for key in own)]:
        _check_key(key, suite.keys)
    groups: dict[str, list[Plan]] = {}
    for plan in suite.plans:
        groups.setdefault(study_name(plan), []).append(plan)
    made = []
    for name, plans in groups.items():
        own = spaces.get(plans[0].config.algorithm.name, {})
        point = {k: v for k, v in plans[0].point.items() if k not in SEEDS}
        bare = Study(name, point, plans, {}, suite)
        axes = {key: _axis(bare, key, value) for key, value in {**common, **own}.items()}
        made.append(Study(name, point, plans, axes, suite))
    return made


def study_name(plan: Plan) -> str:
    """The name of a run of the comparison without its seeds."""
    rest = {k: v for k, v in plan.point.items() if k not in SEEDS}
    return name_of(rest) if rest else plan.config.algorithm.name


def _check_key(key: str, grid: Sequence[str]) -> None:
    if key.startswith(COMPARED):
        raise UserError(
            f"search: {key} says what is compared, not how an algorithm is set; put it into "
            "`base:` or `grid:`"
        )
    if key in grid:
        raise UserError(f"search: {key} is in the grid, too; it can be in one of them only")


def _axis(study: Study, key: str, given: Any) -> Interval | Choices:
    """The values of a key; the ends of an interval and every choice must be valid here."""
    where = f"search: {key} of {study.algorithm}"
    if isinstance(given, list) and given:
        for k, value in enumerate(given):
            if value in given[:k]:
                raise UserError(f"{where}: {shown(value)} is there twice")
            _check_value(study, key, value)
        return Choices(given)
    if not isinstance(given, dict) or not {"low", "high"} <= given.keys() <= {"low", "high", "log"}:
        raise UserError(
            f"{where} is {shown(given)}; it must be a list of values or an interval, such as "
            "{low: 0.001, high: 1, log: true}"
        )
    low, high, log = given["low"], given["high"], given.get("log", False)
    numbers = all(type(v) in (int, float) and math.isfinite(v) for v in (low, high))
    if not numbers or not low < high:
        raise UserError(f"{where}: low {shown(low)} and high {shown(high)} must be low < high")
    if not isinstance(log, bool) or (log and low <= 0):
        raise UserError(f"{where}: log is {shown(log)}; it may be true if low is above 0, or false")
    for end in (low, high):
        _check_value(study, key, end)
    whole = type(low) is type(high) is int and not _takes(study, key, low + 0.5)
    return Interval(low, high, log, whole)


def _check_value(study: Study, key: str, value: Any) -> None:
    try:
        study.configured({key: value})
    except UserError as error:
        raise UserError(f"search: {error}") from None


def _takes(study: Study, key: str, value: float) -> bool:
    """Whether a key takes fractions, as `{low: 0, high: 1}` does not tell."""
    try:
        study.configured({key: value})
    except UserError:
        return False
    return True


def _mapping(key: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise UserError(f"{key} is {shown(given)}; it must hold keys and values")
    return given


def _count(key: str, given: Any, most: int) -> int:
    if type(given) is not int or not 1 <= given <= most:
        raise UserError(f"{key} is {shown(given)}; it must be a whole number from 1 to {most:,}")
    return given
