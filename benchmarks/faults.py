"""Thirty per cent of the clients die, hang or lie in every round: what is left of the model?

    python benchmarks/faults.py [--rounds 30] [--preset digits] [--algorithm fedkf] [--out FILE]

Runs an honest federation and one in which each active client, with a chance of one in ten each,
kills its process, hangs, or sends its update turned round and a hundredfold (or 1e30 everywhere).
The defence is the default one. Prints AMP, WLP and how many of each were left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

import fedkf
from fedkf import algorithms
from fedkf.core.client import Client
from fedkf.core.payload import Payload

HANGS, LIES, DIES = "hangs", "lies", "dies"


def fate(client: Client) -> str:
    """What becomes of a client's turn: the same in every run of a seed."""
    draw = float(torch.rand((), generator=client.random("fault")))
    return {0: DIES, 1: HANGS, 2: LIES}.get(int(10 * draw), "works")


def lie(upload: Payload, down: Payload, large: bool) -> Payload:
    sent = down["weights"]
    turned = {
        name: torch.full_like(t, 1e30) if large else sent[name] - 100 * (t - sent[name])
        for name, t in upload["weights"].items()
        if t.is_floating_point()
    }
    return upload.replace(weights={**upload["weights"], **turned})


def faulty(name: str) -> fedkf.Algorithm:
    """The algorithm with clients that fail."""
    kind: type[Any] = algorithms.get(name)

    @dataclass(frozen=True)
    class Faulty(kind):
        name: ClassVar[str] = f"faulty {kind.name}"

        def local_update(self, client: Client, down: Payload) -> Payload:
            end = fate(client)
            if end == DIES:
                os._exit(1)
            if end == HANGS:
                time.sleep(3600)
            upload: Payload = super().local_update(client, down)
            return lie(upload, down, client.id % 2 == 0) if end == LIES else upload

    made: fedkf.Algorithm = Faulty(**kind.fidelity.get("released", {}))
    return made


def reasons(history: list[dict[str, Any]]) -> Iterator[str]:
    for line in history:
        for refusal in line["refused"]:
            text = refusal["reason"]
            died, hung = "died" in text, "within" in text or "took" in text
            yield DIES if died else HANGS if hung else LIES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--preset", default="digits")
    parser.add_argument("--algorithm", default="fedkf")
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shared: dict[str, Any] = {"rounds": options.rounds, "fraction": 1.0, "workers": 2}
    honest_kind = algorithms.get(options.algorithm)
    honest = honest_kind(**honest_kind.fidelity.get("released", {}))
    rows: dict[str, Any] = {}
    for name, algorithm in (("honest", honest), ("30 % fail", faulty(options.algorithm))):
        began = time.monotonic()
        more = {} if name == "honest" else {"round_timeout": options.timeout}
        result = fedkf.run(options.preset, algorithm=algorithm, **shared, **more)
        left_out = Counter(reasons(result.history))
        rows[name] = {
            "readouts": result.summary["readouts"],
            "left out": dict(left_out),
            "asked": sum(len(line["active"]) for line in result.history),
            "seconds": round(time.monotonic() - began),
        }
    print("| | AMP ACA | AMP OCA | WLP ACA | WLP OCA | left out | of |")
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        numbers = [row["readouts"][r][m] for m in ("amp", "wlp") for r in ("aca", "oca")]
        cells = " | ".join(f"{100 * n:.1f}" for n in numbers)
        named = ", ".join(f"{count} {what}" for what, count in sorted(row["left out"].items()))
        print(f"| {name} | {cells} | {named or '–'} | {row['asked']} |")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
