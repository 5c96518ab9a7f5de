"""Seconds per round of the whole engine on two cores, against a bare loop, Flower and pfl.

    python benchmarks/rounds.py [--repetitions 7] [--python PYTHON]

PYTHON is an interpreter with `flwr[simulation]` and `pfl`; without it they are left out. Every
program does the same work (benchmarks/competitors/work.py) in turns; medians.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from alternate import Side, medians

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
FOLDER = Path(__file__).parent / "competitors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--python", help="an interpreter with flwr and pfl")
    parser.add_argument("--algorithms", nargs="*", default=["fedavg", "fedkf"])
    given = parser.parse_args()
    os.environ.update(QUIET)
    print("| one round | seconds | times ours |")
    print("|---|---|---|")
    for algorithm in given.algorithms:
        sides = {
            "ours, two workers": Side([sys.executable, FOLDER / "ours.py", algorithm]),
            "bare loop": Side([sys.executable, FOLDER / "bare.py", algorithm]),
        }
        if given.python and algorithm == "fedavg":
            torchrun = [given.python, "-m", "torch.distributed.run", "--nproc-per-node=2"]
            sides["Flower simulation"] = Side([given.python, FOLDER / "flower_simulation.py"])
            sides["pfl"] = Side([*torchrun, FOLDER / "pfl_simulation.py"])
        few = given.repetitions if algorithm == "fedavg" else max(3, given.repetitions // 2)
        seconds = medians(sides, few)
        for name, value in seconds.items():
            ratio = value / seconds["ours, two workers"]
            print(f"| {algorithm}, {name} | {value:.2f} | {ratio:.2f}× |", flush=True)


if __name__ == "__main__":
    main()
