"""Clock: how long each part of a round took."""

from __future__ import annotations

import time


class Clock:
    """Seconds spent in each part of a round."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self.last
        self.last = now

    def seconds(self) -> dict[str, float]:
        """What the record of a round says; what follows the last lap is the checkpoint's."""
        self.lap("checkpoint")
        laps = {k: round(self.laps[k], 4) for k in ("train", "aggregate", "evaluate", "checkpoint")}
        return {**laps, "total": round(self.last - self.began, 4)}
