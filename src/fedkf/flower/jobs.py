"""A job: a run that a coordinator was asked for, and what is told of it while it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import write_atomically
from fedkf.core.records import Round
from fedkf.flower.orders import is_locked, locked
from fedkf.flower.private import OWNER_ALONE, current_umask, private
from fedkf.runs.rounds import RoundsFile
from fedkf.runs.schema import Config

PATIENCE = 180.0
"""Seconds in which Flower must have started a run's server process."""


@dataclass(frozen=True)
class Request:
    """What a run is to do, and where and by whom it was asked for."""

    config: dict[str, Any]
    """Not parsed yet: it may name modules that are found in `cwd` alone."""
    out: Path
    resume: bool
    wait: float
    cwd: Path
    """Relative paths and modules of the run's own are found there."""
    umask: int
    """Of whoever asked: the run's files are theirs to share, unlike the job's."""

    @classmethod
    def here(cls, config: Config, out: Path, resume: bool, wait: float) -> Request:
        """A request of this process."""
        content = config.model_dump(mode="json")
        return cls(content, out.absolute(), resume, wait, Path.cwd(), current_umask())

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "out": str(self.out), "cwd": str(self.cwd)}

    @classmethod
    def read(cls, content: dict[str, Any]) -> Request:
        paths = {name: Path(content[name]) for name in ("out", "cwd")}
        return cls(**{"umask": OWNER_ALONE, **content, **paths})  # older ones have no umask


@dataclass(frozen=True)
class Job:
    """COORDINATOR/jobs/NAME: what a run is to do, what it says, and how it ended."""

    folder: Path

    def create(self, request: Request) -> None:
        with private():
            self.folder.mkdir(parents=True)
            (self.folder / "job.json").write_text(json.dumps(request.as_json()))

    def request(self) -> Request:
        try:
            content = (self.folder / "job.json").read_bytes()
        except FileNotFoundError:
            raise UserError(f"there is no job {self.folder.name}") from None
        return Request.read(json.loads(content))

    def withdraw(self) -> None:
        """Stop the run, or see to it that it does not begin."""
        (self.folder / "job.json").unlink(missing_ok=True)  # read only once the pid is written
        if self.at_work():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.read("pid"), signal.SIGTERM)

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """While this process carries it out: its lock ends with it, however that ends."""
        with locked(self.folder / "pid"):
            self.write(pid=os.getpid())
            yield

    def at_work(self) -> bool:
        """Whether a process carries it out. Its pid would not tell: a dead child whose parent does
        not ask for it keeps that, and later another process may have it."""
        return self.read("pid") is not None and is_locked(self.folder / "pid")

    @private()
    def say(self, text: str) -> None:
        with open(self.folder / "said", "a", encoding="utf-8") as file:
            file.write(" ".join(text.split()) + "\n")

    def said(self) -> list[str]:
        file = self.folder / "said"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    @private()
    def write(self, **facts: Any) -> None:
        """Facts that both sides of the job look at, each a file of its own."""
        for key, value in facts.items():
            write_atomically(self.folder / key, json.dumps(value).encode())

    def read(self, key: str) -> Any:
        """A fact, or None while there is none."""
        file = self.folder / key
        return json.loads(file.read_bytes()) if file.exists() else None

    def follow(self, say: Callable[[str], None], on_round: Callable[[Round], None]) -> None:
        """Watch the run until it ends; raises what ended it, if it did not end well."""
        file = RoundsFile(self.request().out / "rounds.jsonl", whole=True)
        began, heard, seen = time.monotonic(), 0, len(file.update())
        while True:
            started = self.read("pid") is not None
            gone = started and not self.at_work()
            ended = self.read("exit")  # after that: it is written before the process is gone
            for sentence in self.said()[heard:]:
                say(sentence)
                heard += 1
            if started:
                rounds = file.update()
                for record in rounds[seen:]:
                    on_round(record)
                seen = len(rounds)
            if ended is not None:
                break
            if gone:
                raise FedkfError("the run's server process died; add --resume to go on")
            if not started and time.monotonic() - began > PATIENCE:
                log = self.folder.parents[1] / "flwr-serverapp.log"
                raise FedkfError(f"Flower did not start the run; {log} may say why")
            time.sleep(0.3)
        if ended:
            raise (UserError if ended == 2 else FedkfError)(str(self.read("message")))
