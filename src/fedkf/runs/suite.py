"""Suites: many configurations from one base and a grid, and which finished records answer them."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedkf import algorithms
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Partition
from fedkf.core.limits import shown
from fedkf.core.records import Round, Summary
from fedkf.core.scores import Numbers
from fedkf.data.public import DATASETS
from fedkf.data.reading import OPEN
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY
from fedkf.runs import config as configuration
from fedkf.runs.config import flatten
from fedkf.runs.documents import read_yaml
from fedkf.runs.resuming import FREE_ON_RESUME, SETTLED
from fedkf.runs.schema import Config
from fedkf.runs.stopping import whole
from fedkf.runs.store import RunFolder

MOST_RUNS = 10_000
SEEDS = ("federation.seed", "data.seed")
SECTIONS = {"base", "grid", "variants", "search"}


@dataclass(frozen=True)
class Plan:
    """One run of a suite: its place in the grid, its configuration and its folder's name."""

    name: str
    point: Mapping[str, Any]
    config: Config


@dataclass(frozen=True)
class Finished:
    """A finished run as its record tells it: config.yaml, summary.json and rounds.jsonl."""

    path: Path
    config: Config

    @cached_property
    def summary(self) -> Summary:
        return Summary.read(RunFolder(self.path).read_json("summary.json"))

    @cached_property
    def rounds(self) -> list[Round]:
        return RunFolder(self.path).rounds()

    @cached_property
    def pairing(self) -> tuple[str, int]:
        """What two runs must share to be compared.

        That is data, as divided, seed and, beside accuracy, what they are judged by.
        """
        digest = RunFolder(self.path).provenance().get("data_sha256")
        data = self.config.data.model_dump_json() if digest is None else str(digest)
        return f"{data}{self.by}", self.config.federation.seed

    @cached_property
    def revision(self) -> str:
        """Of the program that made it; nothing where the record does not say."""
        return str(RunFolder(self.path).provenance().get("revision", ""))

    @property
    def by(self) -> str:
        """What its clients are judged by, in words, if that is not accuracy."""
        return "" if self.summary.metric == ACCURACY else f" by {self.summary.metric}"

    @cached_property
    def tested(self) -> dict[int, int]:
        """On how many cases each client was tested; empty for a record that does not say."""
        with contextlib.suppress(FedkfError, OSError):
            about = RunFolder(self.path).read_record("partition.json", Partition.read)
            return {k: client.test for k, client in enumerate(about.clients) if client.test}
        return {}

    def final(self, readout: str) -> Numbers | None:
        """A readout's metrics after the last round, those too that came after the run."""
        numbers = self.summary.readouts.get(readout)
        if numbers is None or all(name in numbers.values for name in METRICS):
            return numbers
        last = next((r.readouts for r in reversed(self.rounds) if r.readouts), {})
        return numbers.completed(last.get(readout))


@dataclass(frozen=True)
class Suite:
    """All runs of a grid, and what they are made from."""

    keys: Sequence[str]
    plans: Sequence[Plan] = field(repr=False)
    base: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    search: Any = None
    """What stands under `search:`, not checked yet."""


def read(path: Path) -> Suite:
    """A suite from a YAML file with `base:`, `grid:` and perhaps `variants:` or `search:`."""
    return suite_of(read_yaml(path), path)


def suite_of(content: Any, path: Path | str) -> Suite:
    """A suite from what a file holds, or a program says; `path` names it where it is wrong."""
    if not isinstance(content, dict) or not set(content) <= SECTIONS:
        raise UserError(
            f"{path} must hold `base:` (a configuration) and `grid:` (key → values), and nothing "
            "else but `variants:` (name → settings) or `search:` (what `fedkf sweep --search` may "
            "change)"
        )
    base, grid = content.get("base"), content.get("grid", {})
    if isinstance(base, dict):
        name, overrides = base.pop("config", None), dotted(base)
    else:
        name, overrides = base, {}
    if not (name is None or isinstance(name, str)):
        raise UserError(f"{path}: base is {name!r}; it must name a preset or a file")
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise UserError(f"{path}: grid must map keys to lists of values, such as data.alpha: [0.1]")
    grid = {str(key): values for key, values in grid.items()}
    if "variants" not in content:
        return replace(expand(name, overrides, grid), search=content.get("search"))
    if "search" in content:
        raise UserError(f"{path}: variants are settled, so that there is nothing to search beside")
    suites = [
        expand(name, {**overrides, **settings}, {"variant": [variant], **grid})
        for variant, settings in variants_of(content["variants"], grid, path).items()
    ]
    plans = distinct([plan for suite in suites for plan in suite.plans])
    return Suite(suites[0].keys, plans, name)


def variants_of(
    content: Any, grid: Mapping[str, Any], path: Path | str
) -> dict[str, dict[str, Any]]:
    """Named settings that are no grid, such as what one algorithm alone has."""
    known = isinstance(content, dict) and content
    if not known or not all(isinstance(v, dict) or v is None for v in content.values()):
        raise UserError(
            f"{path}: variants must map names to settings, such as mild: {{algorithm.mu: 0.01}}"
        )
    found = {str(name): dotted(settings or {}) for name, settings in content.items()}
    for name, settings in found.items():
        if twice := sorted(settings.keys() & grid.keys()):
            raise UserError(f"{path}: {twice[0]} is in the grid and in the variant {name}")
    return found


def expand(
    base: str | None, overrides: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> Suite:
    """Every combination of the grid's values; `config` in it chooses among configurations."""
    if (runs := math.prod(len(values) for values in grid.values())) > MOST_RUNS:
        raise UserError(f"grid: it makes {shown(runs)} runs; at most {MOST_RUNS:,} are taken")
    points = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    plans = [make_plan(base, overrides, point) for point in points]
    return Suite(list(grid), distinct(plans), base, overrides)


def distinct(plans: list[Plan]) -> list[Plan]:
    """The same plans, each of which has a folder to itself."""
    known: dict[str, str] = {}  # by names as disks compare them that know no capital letters
    for plan in plans:
        other = known.get(plan.name.casefold())
        if other == plan.name:
            raise UserError(f"grid: {plan.name} is there twice")
        if other is not None:
            raise UserError(
                f"grid: {other} and {plan.name} differ in capital letters alone, which some disks "
                "take for one folder; give one of them another name"
            )
        known[plan.name.casefold()] = plan.name
    return plans


def make_plan(base: str | None, overrides: Mapping[str, Any], point: Mapping[str, Any]) -> Plan:
    """The run at one point of a grid."""
    content, _ = configuration.read(point.get("config", base))
    own = {key: value for key, value in point.items() if key not in ("config", "variant")}
    config = configuration.resolve(content, {**overrides, **own, "engine.workers": 0})
    return Plan(name_of(point), point, config)


LONGEST_NAME = 200
"""Bytes of a folder's name; disks take 255, of which temporary files beside it need some."""


def name_of(point: Mapping[str, Any]) -> str:
    """A folder's name that says what differs: `fedkf,alpha=0.1,seed=0`."""
    parts = []
    for key, value in point.items():
        text = re.sub(r"[^\w.+-]+", ".", str(value))
        bare = key in ("algorithm.name", "config", "variant")
        label = key.replace("federation.", "").replace("data.seed", "data-seed").split(".")[-1]
        parts.append(text if bare else f"{label}={text}")
    name = ",".join(parts) or "run"
    if name in (".", ".."):
        raise UserError(f"grid: no run's folder can be called {name}; give it another name")
    if (length := len(name.encode())) > LONGEST_NAME:
        raise UserError(
            f"grid: the folder of {shown(name)} would have a name of {length} bytes; at most "
            f"{LONGEST_NAME} are taken"
        )
    return name


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections and dotted keys alike as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict) and not prefix:
            flat.update(dotted(value, f"{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


# -- records ---------------------------------------------------------------------------------------


def records(folders: Iterable[Path]) -> list[Finished]:
    """Every finished run below these folders; a damaged one is passed over."""
    places = dict.fromkeys(f.absolute() for f in folders)
    paths = [path.parent for place in places for path in sorted(place.rglob("summary.json"))]
    return [record for path in paths if (record := record_in(path))]


def record_in(folder: Path) -> Finished | None:
    """The finished run that a folder holds, if there is one and it can be read."""
    run = RunFolder(folder)
    try:
        config, summary = run.config(), run.read_record("summary.json", Summary.read)
        if config is None or not whole(run, config, summary):
            return None
    except (FedkfError, OSError, ValueError, LookupError, TypeError):
        return None
    return Finished(folder, config)


def answers(plan: Plan, finished: Iterable[Finished]) -> Finished | None:
    """The record of the same experiment, if there is one."""
    return next((f for f in finished if difference(plan.config, f.config) is None), None)


def difference(wanted: Config, found: Config) -> str | None:
    """The first key in which two configurations mean different experiments."""
    first, second = comparable(wanted), comparable(found)
    for key in sorted(first.keys() | second.keys()):
        open_ = key in SETTLED and first.get(key) in (None, OPEN)
        # What a run settles for itself: its owners' number, a generator for what is no image.
        open_ |= key == "data.clients" and second["data.partition"] == "natural"
        open_ |= key == "generator.name" and second.get(key) in ("mlp", "signal")
        if first.get(key) != second.get(key) and not open_:
            return key
    return None


def comparable(config: Config) -> dict[str, Any]:
    """A configuration's keys without those that have no influence on results.

    letters.npz as a file and the data set `letters` are the same samples.
    """
    flat = {k: v for k, v in flatten(config).items() if not k.startswith(FREE_ON_RESUME)}
    source, path = flat["data.source"], flat.pop("data.path")
    if source == "npz" and path is not None:
        stem = Path(path).stem
        flat["data.source"] = stem if stem in DATASETS else f"npz {path}"
    elif path is not None:
        flat["data.source"] = f"{source} {path}"
    flat.pop("data.class_names")
    flat.pop("generator.preset", None)  # what it stands for is spelled out beside it
    if not algorithms.get(config.algorithm.name).uses_generator:
        flat = {k: v for k, v in flat.items() if not k.startswith("generator.")}
    return flat
