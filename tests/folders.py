"""Run folders written by hand, for tests of what reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Accuracies = Sequence[float | None]


def score(accuracies: Accuracies) -> dict[str, Any]:
    """Every client with the same number of tests."""
    known = [a for a in accuracies if a is not None]
    mean = sum(known) / len(known)
    return {
        "amp": mean,
        "fm": sum((a - mean) ** 2 for a in known) / len(known),
        "wlp": min(known),
        "clients": list(range(len(accuracies))),
        "accuracy": list(accuracies),
    }


def record(round: int, readouts: Mapping[str, Accuracies], **more: Any) -> dict[str, Any]:
    """A line of rounds.jsonl."""
    return {
        "round": round,
        "active": [0],
        "refused": [],
        "readouts": {name: score(accuracies) for name, accuracies in readouts.items()},
        "losses": {"loss": 1 / round},
        "bytes": {"down": 1_000_000, "up": 500_000},
        "seconds": {"train": 1, "aggregate": 0, "evaluate": 1, "checkpoint": 0, "total": 2.0},
        **more,
    }


def append(folder: Path, line: Mapping[str, Any]) -> None:
    with open(folder / "rounds.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def set_status(folder: Path, state: str = "running", rounds: int = 3, **more: Any) -> None:
    about = {"state": state, "rounds": rounds, "round": 1, "active": [0], "heartbeat": time.time()}
    (folder / "status.json").write_text(json.dumps(about | more))


def finish(folder: Path) -> None:
    """summary.json as the last line has it."""
    last = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])
    numbers = {k: {m: s[m] for m in ("amp", "fm", "wlp")} for k, s in last["readouts"].items()}
    about = {"algorithm": "fedavg", "rounds": last["round"], "seed": 0, "readouts": numbers}
    (folder / "summary.json").write_text(json.dumps(about))


def write_run(
    folder: Path,
    accuracies: Sequence[Accuracies],
    algorithm: str = "fedavg",
    names: Sequence[str] | None = None,
    tests: int = 10,
    rounds: int | None = None,
) -> Path:
    """A run with one readout, an entry of `accuracies` per finished round."""
    folder.mkdir(parents=True)
    clients = len(accuracies[0]) if accuracies else 2
    sites = names or [f"site {k}" for k in range(clients)]
    (folder / "config.yaml").write_text(
        f"algorithm: {{name: {algorithm}}}\nfederation: {{rounds: {rounds or 3}, seed: 0}}\n"
        "provenance: {data_sha256: abc}\n"
    )
    about = {
        "class_names": ["a", "b"],
        "clients": [
            {"id": k, "name": n, "train": 40, "test": tests, "classes": [k + 1, 3]}
            for k, n in enumerate(sites)
        ],
    }
    (folder / "partition.json").write_text(json.dumps(about))
    for number, row in enumerate(accuracies, 1):
        append(folder, record(number, {"oca": row}))
    set_status(folder, rounds=rounds or 3)
    return folder
