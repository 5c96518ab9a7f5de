"""rounds.jsonl while it grows: what is new is read, and little of it kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedkf.core.records import Round
from fedkf.core.shapes import Damage, parse_json
from fedkf.runs.files import MEGABYTE, Unreadable, read_part

BLOCK = 4 * MEGABYTE
TAILS = (32 << 10, MEGABYTE, 16 * MEGABYTE)


class RoundsFile:
    """The rounds of one run: the last with every client's accuracy, those before without, unless
    all are to be `whole`."""

    def __init__(self, path: Path, whole: bool = False) -> None:
        self.path, self.whole = path, whole
        self.forget()

    def forget(self) -> None:
        self.identity, self.offset, self.lines = 0, 0, 0
        self.damaged: list[int] = []
        self.rounds: list[Round] = []

    def update(self, last: bool = False) -> Sequence[Round]:
        """Read what is new. A file that was replaced or cut is read anew.

        A line without its end is left for the next time, unless this is the last.
        """
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
            if whole:
                self._take(part[:whole])
            elif len(part) == BLOCK:  # too long to be a round
                whole = len(part)
                self.damaged.append(self.lines + 1)
            else:
                break
            self.offset += whole
        if last and self.offset < about.st_size:
            ending = parse(read_part(self.path, self.offset, BLOCK))
            if ending is not None:
                self._add(ending)
        return self.rounds

    def _take(self, content: bytes) -> None:
        for line in content.split(b"\n")[:-1]:
            self.lines += 1
            record = parse(line)
            if record is None:
                self.damaged.append(self.lines)
            else:
                self._add(record)

    def _add(self, record: Round) -> None:
        while self.rounds and self.rounds[-1].round >= record.round:
            self.rounds.pop()  # done again
        if record.readouts and not self.whole:
            self._forget_clients()
        self.rounds.append(record)

    def _forget_clients(self) -> None:
        """Drop the clients' accuracies of the round that is no longer the last."""
        for index in range(len(self.rounds) - 1, -1, -1):
            if self.rounds[index].readouts:
                self.rounds[index] = without_clients(self.rounds[index])
                return

    def notes(self) -> list[str]:
        """What could not be read, in a sentence."""
        if not self.damaged:
            return []
        many = len(self.damaged) > 1
        lines = ", ".join(map(str, self.damaged[:5])) + (" …" if len(self.damaged) > 5 else "")
        which = f"lines {lines} are" if many else f"line {lines} is"
        return [f"rounds.jsonl is damaged: {which} left out, {len(self.rounds)} rounds read"]


def parse(line: bytes) -> Round | None:
    """A line of rounds.jsonl, or None if it is damaged."""
    try:
        return Round.read(parse_json(line))
    except Damage:
        return None


def without_clients(record: Round) -> Round:
    """The round with its numbers, but not every client's accuracy."""
    scores = {name: score.without_clients() for name, score in (record.readouts or {}).items()}
    return replace(record, readouts=scores or None)


def last_rounds(path: Path, size: int) -> list[Round]:
    """Some of the last rounds, the latest evaluated one among them, without reading the file."""
    rounds: list[Round] = []
    for most in TAILS:
        start = max(0, size - most)
        try:
            part = read_part(path, start, most)
        except Unreadable:
            return []
        lines = part[: part.rfind(b"\n") + 1].split(b"\n")[1 if start else 0 :]
        rounds = [record for record in map(parse, lines) if record is not None]
        if start == 0 or any(record.readouts for record in rounds):
            break
    return rounds
