"""The runs in a folder, listed: a row for each, details only of those that are looked at."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedkf.charts.labels import algorithm_label
from fedkf.core.records import Round, Status, Summary
from fedkf.core.scores import Score
from fedkf.metrics import METRICS
from fedkf.metrics.sites import SITE_METRICS
from fedkf.report.runs import (
    MARKS,
    READOUTS,
    Run,
    find_runs,
    labelled,
    parse_config,
    read_json,
    read_run,
    read_text,
)
from fedkf.runs.files import Unreadable
from fedkf.runs.rounds import RoundsFile, last_rounds, without_clients

PAUSE = 0.5
"""Seconds between two looks at the disk, however many browsers ask."""
OPEN = 32
SILENT = 60.0
RECENT = 8
Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass
class Entry:
    """What is kept of a run that nobody looks at."""

    path: Path
    stamp: Stamp = ()
    row: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    tail: Sequence[Round] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    status: Status = field(default_factory=Status)
    summary: Summary | None = None


class Listing:
    """The runs in a folder. Names that a browser sends are looked up here, never opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.entries: dict[str, Entry] = {}
        self.version = 0
        self.names_version = 0
        self._open: OrderedDict[str, tuple[RoundsFile, Run, Stamp]] = OrderedDict()
        self._looked = 0.0
        self._lock = threading.RLock()

    # -- the list --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look at the disk: what is new, changed or gone."""
        with self._lock:
            if time.monotonic() - self._looked < PAUSE:
                return
            found = {self.name(path): path for path in find_runs(self.folder)}
            for name in self.entries.keys() - found.keys():
                del self.entries[name]
                self._open.pop(name, None)
                self.version += 1
                self.names_version = self.version
            for name, path in found.items():
                if name not in self.entries:
                    self.entries[name] = Entry(path)
                self._look(name, self.entries[name])
            self._looked = time.monotonic()

    def name(self, path: Path) -> str:
        relative = path.relative_to(self.folder).as_posix()
        return self.folder.name if relative == "." else relative

    def _look(self, name: str, entry: Entry) -> None:
        stamp = stamp_of(entry.path)
        if stamp != entry.stamp:
            read_entry(entry, stamp)
        row = describe(name, entry, time.time())
        if row != entry.row:
            self.version += 1
            entry.row, entry.version = row, self.version

    def changes(self, since: int) -> dict[str, Any]:
        """Rows that changed after a version, and all names if any run is gone."""
        with self._lock:
            self.refresh()
            rows = [
                {**entry.row, "version": entry.version}
                for entry in self.entries.values()
                if entry.version > since
            ]
            answer: dict[str, Any] = {"version": self.version, "rows": rows}
            if not since or self.names_version > since:
                answer["names"] = list(self.entries)
            return answer

    # -- details ---------------------------------------------------------------------------------

    def runs(self, names: Sequence[str]) -> list[Run] | None:
        """Runs as charts take them, their rounds without all accuracies; None if one is unknown."""
        with self._lock:
            self.refresh()
            if any(name not in self.entries for name in names):
                return None
            return labelled([self._read(name) for name in names])

    def _read(self, name: str) -> Run:
        entry = self.entries[name]
        stamp = entry.stamp
        file, run, known = self._open.pop(name, (None, None, ()))
        if file is None or run is None:
            file = RoundsFile(entry.path / "rounds.jsonl")
        if run is None or known != stamp:
            rounds, unread = followed(file)
            run = read_run(entry.path, rounds=rounds)
            run = replace(run, notes=[*run.notes, *unread])
        self._open[name] = (file, run, stamp)
        while len(self._open) > OPEN:
            self._open.popitem(last=False)
        return replace(run, notes=[*run.notes, *file.notes()])

    def paths(self, names: Sequence[str]) -> list[Path] | None:
        with self._lock:
            self.refresh()
            known = [self.entries[name].path for name in names if name in self.entries]
            return known if len(known) == len(names) else None


def followed(file: RoundsFile) -> tuple[Sequence[Round], list[str]]:
    """The rounds by now, or why they cannot be read."""
    try:
        return file.update(), []
    except Unreadable as error:
        return [], [str(error)]


def stamp_of(path: Path) -> Stamp:
    """Changes when any file that says something about the run does."""
    stamp: list[tuple[int, int, int] | None] = []
    for name in MARKS:
        try:
            about = os.stat(path / name, follow_symlinks=False)
            stamp.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError:
            stamp.append(None)
    return tuple(stamp)


def read_entry(entry: Entry, stamp: Stamp) -> None:
    """Read again what changed."""
    before = entry.stamp or (None,) * len(MARKS)
    changed = {
        name: new
        for name, new, old in zip(MARKS, stamp, before, strict=True)
        if new != old or not entry.stamp
    }
    notes: list[str] = []
    if "summary.json" in changed:
        entry.summary = read_json(entry.path / "summary.json", Summary.read, notes)
    if entry.summary is None and ("config.yaml" in changed or not entry.config):
        # YAML is slow to read, and what a finished run is stands in its summary too.
        entry.config = parse_config(read_text(entry.path / "config.yaml", notes), notes)
    if "rounds.jsonl" in changed:
        about = changed["rounds.jsonl"]
        rounds = last_rounds(entry.path / "rounds.jsonl", about[1] if about else 0)
        scored = next((r for r in reversed(rounds) if r.readouts), None)
        entry.scores = (without_clients(scored).readouts if scored else None) or {}
        entry.tail = [replace(r, readouts=None) for r in rounds[-RECENT:]]
    if "status.json" in changed:
        entry.status = read_json(entry.path / "status.json", Status.read, notes) or Status()
    entry.stamp = stamp


def describe(name: str, entry: Entry, now: float) -> dict[str, Any]:
    """A run in the list."""
    status, summary, tail = entry.status, entry.summary, entry.tail
    choice, settings = (entry.config.get(key) for key in ("algorithm", "federation"))
    algorithm = summary.algorithm if summary else None
    if algorithm is None and isinstance(choice, dict):
        algorithm = str(choice.get("name", ""))
    planned = settings.get("rounds") if isinstance(settings, dict) else None
    done = max([record.round for record in tail], default=0)
    rounds = max(done, status.rounds, planned if isinstance(planned, int) else 0)
    each = sum(r.seconds.get("total", 0.0) for r in tail) / len(tail) if tail else None
    state = "finished" if summary else status.state
    if state == "running" and now - status.heartbeat > max(SILENT, 3 * (each or 0)):
        state = "silent"
    numbers = next((entry.scores[r] for r in READOUTS if r in entry.scores), None)
    running = state == "running"
    about = SITE_METRICS.get(numbers.metric) if numbers else None
    return {
        "name": name,
        "algorithm": algorithm_label(algorithm or ""),
        "state": state,
        "round": done,
        "rounds": rounds,
        "left": round(each * (rounds - done)) if running and each is not None else None,
        "metrics": {name: numbers[name] if numbers else None for name in METRICS},
        "over": about.label if about else "",
        "percent": about is None or about.percent,
        "active": len(status.active) if running else 0,
        "refused": len(tail[-1].refused) if tail else 0,
        "reason": status.reason[:300] if state in ("failed", "stopped") else "",
        "updated": round(status.heartbeat),
    }
