"""RunFolder: a run on disk, its lock, and the files that others read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Observer
from fedkf.core.payload import sync_folder, write_atomically
from fedkf.core.records import Round
from fedkf.core.shapes import Damage, parse_json
from fedkf.metrics.own import recall
from fedkf.runs.config import parse, to_yaml
from fedkf.runs.documents import read_yaml
from fedkf.runs.schema import Config

Value = TypeVar("Value")
_held: set[Path] = set()

FILES = (
    *("summary.json", "partition.json", "split.npz", "rounds.jsonl", "status.json"),
    *("ledger.json", "checkpoint", "models", "kept", "config.yaml"),
)
"""What a run writes into its folder, last what says that there is something to remove."""
REST = ("split.npz", "ledger.json", "kept/best", "kept/round-*")
"""What of it is neither written at the beginning of a run nor all of it replaced at its end."""

HEARTBEAT = 1.0
"""Seconds for which status.json may stay as it is: of 10,000 clients many answer in each."""


class RunFolder:
    """RUN and everything in it. One process at a time may write."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: tuple[int, Path] | None = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    # -- who may write --------------------------------------------------------------------------

    def claim(self, resume: bool) -> None:
        """Take the folder for this process, or say why it cannot be had."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
        except (NotADirectoryError, FileExistsError):
            raise UserError(f"{self.path} is not a folder") from None
        if self.begun() and not resume:
            self.release()
            raise UserError(
                f"{self.path} already holds a run; resume it (--resume, in Python resume=True) or "
                "choose another folder"
            )

    @contextlib.contextmanager
    def claimed(self, resume: bool) -> Iterator[None]:
        """The folder as this process's own, for as long as the block lasts."""
        self.claim(resume)
        try:
            yield
        finally:
            self.release()

    def tidy(self) -> None:
        """Remove what a crash may have left."""
        for folder in (self.path, self / "models"):
            for stray in folder.glob(".*.tmp"):
                stray.unlink(missing_ok=True)

    def _take_lock(self) -> None:
        # A POSIX lock: it dies with its process, and forked workers do not inherit it.
        # But closing any descriptor of its file ends it: what is held is not even opened again.
        place = self.path.resolve()
        if place in _held:
            raise FedkfError(f"{self.path} is being written by this very process")
        descriptor = os.open(self / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise FedkfError(f"{self.path} is being written by another process") from None
        self._lock = descriptor, place
        _held.add(place)

    def begun(self) -> bool:
        """Whether it holds a checkpoint or a whole run; anything less is simply started anew."""
        return self.manifest.exists() or self.finished()

    @property
    def manifest(self) -> Path:
        return self / "checkpoint" / "manifest.json"

    def clear(self) -> None:
        """Remove a run that nobody is writing; what else lies in its folder stays."""
        if not (self / "config.yaml").exists():
            return
        self._take_lock()
        try:
            self.manifest.unlink(missing_ok=True)
            self._remove(FILES)
        finally:
            self.release()

    def clear_rest(self) -> None:
        """Remove what a run that came to nothing has left and a new one would not replace."""
        if (self / "config.yaml").exists():
            self._remove(REST)

    def _remove(self, names: Iterable[str]) -> None:
        for path in [path for name in names for path in self.path.glob(name)]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def release(self) -> None:
        if self._lock is not None:
            descriptor, place = self._lock
            os.close(descriptor)
            self._lock = None
            _held.discard(place)

    # -- what is in it --------------------------------------------------------------------------

    def config(self) -> Config | None:
        """The configuration the run began with, if it has begun."""
        content = self._content()
        content.pop("provenance", None)
        return parse(content) if content else None

    def provenance(self) -> dict[str, Any]:
        """Where the run comes from, as it was when it began or was last resumed."""
        about = self._content().get("provenance")
        return about if isinstance(about, dict) else {}

    def _content(self) -> dict[str, Any]:
        path = self / "config.yaml"
        if not path.exists():
            return {}
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise FedkfError(f"{path} is damaged")
        about = content.get("provenance")
        recall(about.get("metrics") if isinstance(about, dict) else None)
        return content

    def write_config(self, config: Config, provenance: dict[str, Any]) -> None:
        about = yaml.safe_dump({"provenance": provenance}, sort_keys=False, allow_unicode=True)
        config = config.model_copy(
            update={"output": config.output.model_copy(update={"dir": None})}
        )
        text = f"{to_yaml(config)}\n# where this run comes from; ignored when loaded\n{about}"
        write_atomically(self / "config.yaml", text.encode())

    def rounds(self) -> list[Round]:
        """The finished rounds; a torn last line is left out."""
        return [record for record, _ in self._lines()]

    def _lines(self) -> list[tuple[Round, bytes]]:
        """The rounds that can be read, up to the first that cannot, with their lines."""
        path = self / "rounds.jsonl"
        found: list[tuple[Round, bytes]] = []
        for line in path.read_bytes().split(b"\n") if path.exists() else []:
            try:
                found.append((Round.read(parse_json(line)), line))
            except Damage:
                break
        return found

    def check_rounds(self, committed: Round) -> None:
        """Refuse to go on where a round before the checkpoint's cannot be read any more."""
        known = {record.round for record, _ in self._lines()}
        lost = [number for number in range(1, committed.round) if number not in known]
        if lost:
            raise FedkfError(f"{self / 'rounds.jsonl'} is damaged: round {lost[0]} is not there")

    def repair_rounds(self, committed: Round | None) -> None:
        """Make rounds.jsonl end with the round that the checkpoint holds."""
        path = self / "rounds.jsonl"
        if committed is None:
            path.unlink(missing_ok=True)
            return
        known = {record.round: line for record, line in self._lines()}
        before = [line for number, line in known.items() if number < committed.round]
        last = known.get(committed.round, line_of(committed))
        content = b"".join(line + b"\n" for line in [*before, last])
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)

    def append_round(self, record: Round) -> None:
        path = self / "rounds.jsonl"
        first = not path.exists()
        with open(path, "ab") as file:
            file.write(line_of(record) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if first:
            sync_folder(self.path)

    def amend_last(self, record: Round) -> None:
        """Make the last line this record, which may tell more of its round than it did."""
        path = self / "rounds.jsonl"
        before, _, last = path.read_bytes().rstrip(b"\n").rpartition(b"\n")
        if last != line_of(record):
            write_atomically(path, (before + b"\n" if before else b"") + line_of(record) + b"\n")

    def write_json(self, name: str, content: Any) -> None:
        write_atomically(self / name, (json.dumps(content, indent=2) + "\n").encode())

    def read_json(self, name: str) -> Any:
        return self.read_record(name, lambda content: content)

    def read_record(self, name: str, read: Callable[[object], Value]) -> Value:
        """What a JSON file holds, as its record; a file that does not fit is named."""
        try:
            return read(parse_json((self / name).read_bytes()))
        except FileNotFoundError:
            raise UserError(f"{self.path} holds no {name}") from None
        except (Damage, OSError) as error:
            raise FedkfError(f"{self / name} is damaged: {error}") from None

    def finished(self) -> bool:
        return (self / "summary.json").exists()


class Writer(Observer):
    """Keeps rounds.jsonl and status.json up to date."""

    def __init__(self, folder: RunFolder, rounds: int) -> None:
        self.folder, self.rounds = folder, rounds
        self.status: dict[str, Any] = {"round": 0, "active": [], "heartbeat": 0.0}

    def set_status(self, state: str, **more: Any) -> None:
        self.status.update(state=state, rounds=self.rounds, heartbeat=time.time(), **more)
        # Not flushed to the disk: it tells what is going on now, and nothing depends on it.
        temporary = self.folder / ".status.json.tmp"
        temporary.write_text(json.dumps(self.status) + "\n")
        try:
            os.replace(temporary, self.folder / "status.json")
        except IsADirectoryError:  # somebody put a folder there; the run itself is none the worse
            temporary.unlink()

    def round_started(self, round: int, active: Sequence[int]) -> None:
        self.set_status("running", round=round, active=list(active))

    def client_finished(self, reply: object) -> None:
        if not 0 <= time.time() - self.status["heartbeat"] < HEARTBEAT:
            self.set_status("running")

    def round_finished(self, record: Round) -> None:
        self.folder.append_round(record)


def line_of(record: Round) -> bytes:
    return json.dumps(record.as_json()).encode()
