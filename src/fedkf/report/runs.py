"""A run as a reader sees it: whatever of it can be read, and a note on what cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fedkf.charts.labels import algorithm_label
from fedkf.core.errors import UserError
from fedkf.core.holdings import Partition
from fedkf.core.records import Round, Status, Summary, Traffic
from fedkf.core.scores import Numbers, Score
from fedkf.core.shapes import Damage, parse_json
from fedkf.metrics.own import recall
from fedkf.metrics.sites import ACCURACY
from fedkf.runs.documents import parse_yaml
from fedkf.runs.files import LARGE, Unreadable, read_plain
from fedkf.runs.rounds import RoundsFile

READOUTS = ("oca", "aca", "personal")
"""The order in which readouts are shown; the first is what `fedkf export` takes."""

WITHOUT_SHARED_MODEL = frozenset({"local"})
"""Algorithms that end in a model for each site; to ask them would load torch, so a test does."""
MARKS = ("config.yaml", "rounds.jsonl", "status.json", "summary.json")
DEPTH = 4
Value = TypeVar("Value")


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
    ledger: Traffic | None = None
    config_text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def alone(self) -> bool:
        """Whether every client was judged by a model of its own."""
        return self.algorithm in WITHOUT_SHARED_MODEL

    def section(self, name: str) -> dict[str, Any]:
        """A section of its configuration; empty where there is none that can be read."""
        found = self.config.get(name)
        return found if isinstance(found, dict) else {}

    @property
    def data_hash(self) -> str | None:
        value = self.section("provenance").get("data_sha256")
        return str(value) if value else None

    @cached_property
    def pairing(self) -> tuple[str, int] | None:
        """What two runs must share to be compared; None if not known.

        That is data, seed and, beside accuracy, what they are judged by.
        """
        data = self.data_hash
        if data is None and isinstance(self.config.get("data"), dict):
            data = json.dumps(self.config["data"], sort_keys=True, default=str)
        if data is not None and self.metric != ACCURACY:
            data += f" by {self.metric}"
        return None if data is None or self.seed is None else (data, self.seed)

    @cached_property
    def metric(self) -> str:
        """What of the sites its numbers are over."""
        last = (self.evaluated[-1].readouts or {}) if self.evaluated else {}
        return next((score.metric for score in last.values()), ACCURACY)

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
        """The headline: summary.json's where the run is finished.

        Metrics that were not recorded in it are those of the last evaluated round.
        """
        score = self.score(readout)
        final = self.summary.readouts.get(readout) if self.summary else None
        return final.completed(score) if final else score

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
        wanted = self.section("federation").get("rounds")
        done = self.rounds[-1].round if self.rounds else 0
        return max(done, self.status.rounds, wanted if isinstance(wanted, int) else 0)


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
    titles = [algorithm_label(run.algorithm) for run in runs]
    labels = [
        name if titles.count(name) == 1 else f"{name} · {run.name}"
        for name, run in zip(titles, runs, strict=True)
    ]
    labels = [
        label if labels.count(label) == 1 else f"{name} · {tail(run.path)}"
        for label, name, run in zip(labels, titles, runs, strict=True)
    ]
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def tail(path: Path) -> str:
    """The last two names of a path."""
    return "/".join(path.parts[-2:])


def read_run(path: Path, rounds: Sequence[Round] | None = None) -> Run:
    """Everything in the folder; `rounds` are given where somebody follows them."""
    notes: list[str] = []
    text = read_text(path / "config.yaml", notes)
    config = parse_config(text, notes)
    about = config.get("provenance")
    recall(about.get("metrics") if isinstance(about, dict) else None)  # before numbers are read
    summary = read_json(path / "summary.json", Summary.read, notes)
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
        status=read_json(path / "status.json", Status.read, notes) or Status(),
        partition=read_json(path / "partition.json", Partition.read, notes) or Partition(),
        ledger=read_json(path / "ledger.json", Traffic.read, notes),
        config_text=text,
        config=config,
        notes=notes,
    )


def read_json(path: Path, read: Callable[[object], Value], notes: list[str]) -> Value | None:
    """A file as a record; None where there is none or it is damaged, which `notes` then says."""
    try:
        content = read_plain(path, LARGE // 8)
        return None if content is None else read(parse_json(content))
    except Unreadable as error:
        notes.append(str(error))
    except Damage as error:
        notes.append(f"{path.name} is damaged ({error})")
    return None


def read_text(path: Path, notes: list[str]) -> str:
    """A file's text; empty where it cannot be read, which `notes` then says."""
    try:
        return (read_plain(path) or b"").decode("utf-8", "replace")
    except Unreadable as error:
        notes.append(str(error))
        return ""


def parse_config(text: str, notes: list[str]) -> dict[str, Any]:
    """The configuration as it stands there, unchecked."""
    try:
        content = parse_yaml(text, "config.yaml")
    except UserError:
        notes.append("config.yaml is damaged")
        return {}
    return content if isinstance(content, dict) else {}


def read_rounds(path: Path, notes: list[str]) -> Sequence[Round]:
    """The rounds that can be read; a last line still being written is no damage."""
    file = RoundsFile(path)
    try:
        rounds = file.update(last=True)
    except Unreadable as error:
        notes.append(str(error))
        return []
    notes.extend(file.notes())
    return rounds
