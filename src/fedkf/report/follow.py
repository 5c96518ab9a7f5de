"""Follows rounds.jsonl while it grows, keeping little of it in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkf.report.files import MEGABYTE, Unreadable, read_part
from fedkf.report.records import Round, Score
from fedkf.report.runs import parse_rounds

BLOCK = 4 * MEGABYTE
TAILS = (32 << 10, MEGABYTE, 16 * MEGABYTE)


class Follower:
    """The rounds of one run: the last with every client's accuracy, those before without."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forget()

    def forget(self) -> None:
        self.identity, self.offset, self.damaged = 0, 0, 0
        self.rounds: list[Round] = []

    def update(self) -> Sequence[Round]:
        """Read what is new. A file that was replaced or cut is read anew."""
        try:
            about = self.path.stat(follow_symlinks=False)
        except OSError:
            self.forget()
            return self.rounds
        if about.st_ino != self.identity or about.st_size < self.offset:
            self.forget()
            self.identity = about.st_ino
        while self.offset < about.st_size:
            part = read_part(self.path, self.offset, BLOCK)
            whole = part.rfind(b"\n") + 1
            if not whole:  # a line that is still being written, or one too long to be a round
                if len(part) == BLOCK:
                    self.offset, self.damaged = self.offset + BLOCK, self.damaged + 1
                    continue
                break
            rounds, damaged, _ = parse_rounds(part[:whole])
            self.damaged += len(damaged)
            self.offset += whole
            self._add(rounds)
        return self.rounds

    def _add(self, rounds: Sequence[Round]) -> None:
        for record in rounds:
            if record.readouts:
                self._slim()
            self.rounds.append(record)

    def _slim(self) -> None:
        """Drop the clients' accuracies of the round that is no longer the last."""
        for index in range(len(self.rounds) - 1, -1, -1):
            record = self.rounds[index]
            if record.readouts:
                self.rounds[index] = record.model_copy(update={"readouts": slim(record.readouts)})
                return


def slim(readouts: Mapping[str, Score]) -> dict[str, Score]:
    """The numbers without every client's accuracy."""
    none: dict[str, Any] = {"clients": [], "accuracy": []}
    return {name: score.model_copy(update=none) for name, score in readouts.items()}


def last_rounds(path: Path, size: int) -> list[Round]:
    """Some of the last rounds, the latest evaluated one among them, without reading the file."""
    rounds: list[Round] = []
    for most in TAILS:
        start = max(0, size - most)
        try:
            part = read_part(path, start, most)
        except Unreadable:
            return []
        if start:
            part = part[part.find(b"\n") + 1 :]
        rounds = parse_rounds(part)[0]
        if start == 0 or any(record.readouts for record in rounds):
            break
    return rounds
