"""Pace: what a round of each method takes on this machine, measured in turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkf.core.payload import write_atomically
from fedkf.paper.grid import ROW
from fedkf.runs.experiment import execute
from fedkf.runs.load import BUSY, cores, load
from fedkf.runs.schema import Config
from fedkf.runs.suite import Plan

FILE = "pace.json"
TURNS, WARM, TIMED = 3, 5, 3
"""How often each method has its turn; of its rounds the first are not timed: the machine warms up,
FedKF has no teacher yet, and FedGKD waits for five models."""


@dataclass(frozen=True)
class Pace:
    """Seconds of a round by configuration and algorithm, and under what conditions."""

    seconds: Mapping[tuple[str, str], float]
    load: float
    workers: int

    def about(self) -> str:
        """The note under a table."""
        state = "busy" if self.load > BUSY else "idle"
        workers = "worker" if self.workers == 1 else "workers"
        return (
            f"The time of a round was measured in turns with {self.workers} {workers}, medians of "
            f"several; the machine was {state} (load {self.load:.1f})."
        )


def measure(
    plans: Sequence[Plan], folder: Path, say: Callable[[str], None], turns: int = TURNS
) -> Pace:
    """Let every method train a few rounds, one after the other, several times; keep the medians.

    One worker a core: what a user of this machine waits for.
    """
    now = load()
    if now > BUSY:
        say(f"the machine is busy (load {now:.1f}); times are too long, compare their ratios only")
    first = {(str(plan.point.get("config")), str(plan.point[ROW])): plan for plan in plans[::-1]}
    found: dict[tuple[str, str], list[float]] = {key: [] for key in reversed(first)}
    for turn in range(turns):
        for key in found:
            say(f"measuring {' '.join(key)}, turn {turn + 1} of {turns}")
            found[key] += rounds_of(short(first[key].config))
    medians = {key: statistics.median(values) for key, values in found.items()}
    pace = Pace(medians, now, cores())
    content = {
        "load": now,
        "workers": pace.workers,
        "seconds": [[*key, round(value, 4)] for key, value in medians.items()],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, (json.dumps(content, indent=2) + "\n").encode())
    return pace


def read(folder: Path) -> Pace | None:
    """What was measured before, if anything was."""
    try:
        content = json.loads((folder / FILE).read_bytes())
        seconds = {(config, name): float(value) for config, name, value in content["seconds"]}
        return Pace(seconds, float(content["load"]), int(content["workers"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def short(config: Config) -> Config:
    """A few rounds of it, evaluated once, a worker a core."""
    rounds = {"rounds": WARM + TIMED, "evaluate_every": WARM + TIMED}
    return config.model_copy(
        update={
            "federation": config.federation.model_copy(update=rounds),
            "engine": config.engine.model_copy(update={"workers": cores()}),
        }
    )


def rounds_of(config: Config) -> list[float]:
    """Seconds of training and aggregation in each round that is timed."""
    seconds = [record["seconds"] for record in execute(config).history[WARM:]]
    return [spent["train"] + spent["aggregate"] for spent in seconds]
