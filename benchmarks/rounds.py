"""Seconds per round of the whole engine on two cores, against a bare loop, Flower and pfl.

    python benchmarks/rounds.py [--repetitions 7] [--python PYTHON] [--before CHECKOUT]

PYTHON is an interpreter with `flwr[simulation]` and `pfl`; without it they are left out. CHECKOUT
is a folder with another revision of this project, to be timed in turns with this one. Every
program does the same work (benchmarks/competitors/work.py) on the same two cores in turns; medians,
with the shortest and the longest round.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median

from alternate import Side, take_turns

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
CORES = 2
FOLDER = Path(__file__).parent / "competitors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--python", help="an interpreter with flwr and pfl")
    parser.add_argument("--before", type=Path, help="a checkout of another revision")
    parser.add_argument("--algorithms", nargs="*", default=["fedavg", "fedkf"])
    given = parser.parse_args()
    os.environ.update(QUIET)
    if sys.platform == "linux":  # its children's, too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    print("| one round | seconds | shortest to longest | times ours |")
    print("|---|---|---|---|")
    for algorithm in given.algorithms:
        sides = {
            "ours, two workers": Side([sys.executable, FOLDER / "ours.py", algorithm]),
            "bare loop": Side([sys.executable, FOLDER / "bare.py", algorithm]),
        }
        if given.before:
            program = given.before / "benchmarks" / "competitors" / "ours.py"
            path = f"PYTHONPATH={given.before / 'src'}"
            sides["before, two workers"] = Side(["env", path, sys.executable, program, algorithm])
        if given.python and algorithm == "fedavg":
            torchrun = [given.python, "-m", "torch.distributed.run", f"--nproc-per-node={CORES}"]
            sides["Flower simulation"] = Side([given.python, FOLDER / "flower_simulation.py"])
            sides["pfl"] = Side([*torchrun, FOLDER / "pfl_simulation.py"])
        few = given.repetitions if algorithm == "fedavg" else max(5, given.repetitions // 2)
        times = take_turns(sides, few)
        ours = median(times["ours, two workers"])
        for name, values in times.items():
            value, spread = median(values), f"{min(values):.2f} to {max(values):.2f}"
            row = f"{value:.2f} | {spread} | {value / ours:.2f}×"
            print(f"| {algorithm}, {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
