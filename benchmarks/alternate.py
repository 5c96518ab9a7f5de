"""Programs timed in turns: whatever else the machine does hits all of them alike.

Each side is a process of its own (its threads, its allocator), asleep but for its turn. A program
calls `serve` with the work of one turn; the measuring one starts it as a `Side`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median


def serve(work: Callable[[], None], count: int = 1) -> None:
    """At every line that comes in: do the work and print the seconds of a `count`-th of it."""
    work()  # warms up
    for _ in turns():
        began = time.perf_counter()
        work()
        print((time.perf_counter() - began) / count, flush=True)


def turns() -> Iterator[str]:
    """One item for every line that comes in, beginning with now."""
    print("ready", flush=True)
    return iter(sys.stdin.readline, "")


class Side:
    """A program that waits for its turns."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read("ready")

    def turn(self) -> float:
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        return float(self._read(r"[\d.e-]+"))

    def _read(self, wanted: str) -> str:
        """The next line that looks like this; libraries may print others."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if re.fullmatch(wanted, line.strip()):
                return line
        raise SystemExit(f"{' '.join(map(str, self.process.args))} ended early")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def medians(sides: Mapping[str, Side], repetitions: int) -> dict[str, float]:
    """Seconds of each side, the median of turns taken one after another."""
    return {name: median(values) for name, values in take_turns(sides, repetitions).items()}


def take_turns(sides: Mapping[str, Side], repetitions: int) -> dict[str, list[float]]:
    """Seconds of all turns of each side."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, side in sides.items():
            times[name].append(side.turn())
    for side in sides.values():
        side.close()
    return times
