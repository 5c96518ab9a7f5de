"""A run as a reader sees it: whatever of it can be read, and a note on what cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from fedkf import algorithms
from fedkf.core.errors import UserError
from fedkf.report.files import LARGE, Unreadable, read_plain
from fedkf.report.follow import Follower
from fedkf.report.records import Ledger, Loose, Numbers, Partition, Round, Score, Status, Summary

READOUTS = ("oca", "aca")
"""The order in which readouts are shown; the first is what `fedkf export` takes."""

TITLES = {
    "fedavg": "FedAvg",
    "fedkf": "FedKF",
    "fedkf-": "FedKF-",
    "fedkf-server": "FedKF-server",
    "fedprox": "FedProx",
    "qffl": "q-FFL",
    "scaffold": "SCAFFOLD",
    "fednova": "FedNova",
    "mifa": "MIFA",
    "moon": "MOON",
    "afl": "AFL",
    "fedgen": "FedGen",
    "fedgkd": "FedGKD",
    "feddf": "FedDF",
    "ccvr": "CCVR",
    "fedmgda": "FedMGDA+",
    "fedavgm": "FedAvgM",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "pfedme": "pFedMe",
    "perfedavg": "Per-FedAvg",
    "local": "training alone",
}
MARKS = ("config.yaml", "rounds.jsonl", "status.json", "summary.json")
DEPTH = 4
Shape = TypeVar("Shape", bound=Loose)


@dataclass(frozen=True)
class Run:
    """What the folder of a run says."""

    path: Path
    label: str
    algorithm: str
    seed: int | None = None
    rounds: Sequence[Round] = ()
    summary: Summary | None = None
    status: Status = field(default_factory=Status)
    partition: Partition = field(default_factory=Partition)
    ledger: Ledger | None = None
    config_text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def alone(self) -> bool:
        """Whether every client was judged by a model of its own."""
        return not algorithms.shares_model(self.algorithm)

    @property
    def data_hash(self) -> str | None:
        about = self.config.get("provenance")
        value = about.get("data_sha256") if isinstance(about, dict) else None
        return str(value) if value else None

    @cached_property
    def evaluated(self) -> list[Round]:
        return [r for r in self.rounds if r.readouts]

    @property
    def readouts(self) -> list[str]:
        """The readouts of the last evaluated round; training alone has one, under two names."""
        last = self.evaluated[-1].readouts if self.evaluated else {}
        known = [r for r in READOUTS if r in (last or {})]
        return known[:1] if self.alone else known

    def score(self, readout: str) -> Score | None:
        """The last evaluated round's."""
        last = self.evaluated[-1].readouts if self.evaluated else None
        return (last or {}).get(readout)

    def numbers(self, readout: str) -> Numbers | None:
        """The headline: summary.json's where the run is finished."""
        if self.summary and readout in self.summary.readouts:
            return self.summary.readouts[readout]
        return self.score(readout)

    def site(self, client: int) -> str:
        if client < len(self.partition.clients):
            return self.partition.clients[client].name
        return f"client {client}"

    def tested(self, client: int) -> int | None:
        if client < len(self.partition.clients):
            return self.partition.clients[client].test
        return None

    @property
    def planned(self) -> int:
        """The number of rounds it was to have."""
        settings = self.config.get("federation")
        wanted = settings.get("rounds") if isinstance(settings, dict) else None
        done = self.rounds[-1].round if self.rounds else 0
        return max(done, self.status.rounds, wanted if isinstance(wanted, int) else 0)


def title(algorithm: str) -> str:
    return TITLES.get(algorithm, algorithm)


def find_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The folder itself if it is a run, else the runs in it; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    if any(child.name in MARKS and child.is_file(follow_symlinks=False) for child in children):
        yield folder
        return
    if depth:
        for child in children:
            if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                yield from find_runs(folder / child.name, depth - 1)


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """The runs in the folders that a user names, with labels that tell them apart."""
    paths: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"no folder {folder}")
        found = [path.resolve() for path in find_runs(folder)]
        if not found:
            raise UserError(f"{folder} holds no run")
        paths |= dict.fromkeys(found)
    return labelled([read_run(path) for path in paths])


def labelled(runs: Sequence[Run]) -> list[Run]:
    """The algorithm's name where one run has it, with the folder's where several do."""
    titles = [title(run.algorithm) for run in runs]
    labels = [
        name if titles.count(name) == 1 else f"{name} · {run.name}"
        for name, run in zip(titles, runs, strict=True)
    ]
    labels = [
        label if labels.count(label) == 1 else f"{title(run.algorithm)} · {tail(run.path)}"
        for label, run in zip(labels, runs, strict=True)
    ]
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def tail(path: Path) -> str:
    return "/".join(path.parts[-2:])


def read_run(path: Path, rounds: Sequence[Round] | None = None) -> Run:
    """Everything in the folder; `rounds` are given where somebody follows them."""
    notes: list[str] = []
    text = read_text(path / "config.yaml", notes)
    config = parse_config(text, notes)
    summary = read_shape(path / "summary.json", Summary, notes)
    choice, settings = (config.get(key) for key in ("algorithm", "federation"))
    algorithm = summary.algorithm if summary else None
    if algorithm is None and isinstance(choice, dict):
        algorithm = str(choice.get("name"))
    seed = settings.get("seed") if isinstance(settings, dict) else None
    return Run(
        path=path,
        label=path.name,
        algorithm=algorithm or path.name,
        seed=seed if isinstance(seed, int) else None,
        rounds=read_rounds(path / "rounds.jsonl", notes) if rounds is None else rounds,
        summary=summary,
        status=read_shape(path / "status.json", Status, notes) or Status(),
        partition=read_shape(path / "partition.json", Partition, notes) or Partition(),
        ledger=read_shape(path / "ledger.json", Ledger, notes),
        config_text=text,
        config=config,
        notes=notes,
    )


def read_shape(path: Path, shape: type[Shape], notes: list[str]) -> Shape | None:
    try:
        content = read_plain(path, LARGE // 8)
        return None if content is None else shape.model_validate_json(content)
    except Unreadable as error:
        notes.append(str(error))
    except ValidationError as error:
        notes.append(f"{path.name} is damaged ({first_mistake(error)})")
    return None


def first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][:4])
    return f"{where}: {first['msg']}" if where else first["msg"]


def read_text(path: Path, notes: list[str]) -> str:
    try:
        return (read_plain(path) or b"").decode("utf-8", "replace")
    except Unreadable as error:
        notes.append(str(error))
        return ""


def parse_config(text: str, notes: list[str]) -> dict[str, Any]:
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content = yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        notes.append("config.yaml is damaged")
        return {}
    return content if isinstance(content, dict) else {}


def read_rounds(path: Path, notes: list[str]) -> Sequence[Round]:
    """The rounds that can be read; a last line still being written is no damage."""
    follower = Follower(path)
    try:
        rounds = follower.update(last=True)
    except Unreadable as error:
        notes.append(str(error))
        return []
    notes.extend(follower.notes())
    return rounds
