"""Is the demo's claim true of more than one seed? FedAvg and FedKF on `digits`, seeds 0 to 4.

    python benchmarks/demo_seeds.py [--seeds 5] [--set KEY=VALUE ...]

Each seed moves the partition, the split, the initial weights, the selection and the batches. The
last round counts, not the best.
"""

from __future__ import annotations

import argparse
import time
from statistics import mean, stdev

import fedkf
from fedkf.runs.config import parse_set

METRICS = ("amp", "fm", "wlp")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = arguments.parse_args()
    scores: dict[tuple[str, str, str], list[float]] = {}
    for algorithm in ("fedavg", "fedkf"):
        began = time.perf_counter()
        for seed in range(given.seeds):
            overrides = {"data.seed": seed, **parse_set(given.set)}
            summary = fedkf.run("digits", algorithm=algorithm, seed=seed, **overrides).summary
            for readout, score in summary["readouts"].items():
                for metric in METRICS:
                    scores.setdefault((algorithm, readout, metric), []).append(score[metric])
        seconds = (time.perf_counter() - began) / given.seeds
        print(f"{algorithm}: {seconds:.0f} s a run")
    print(f"\n| mean ± std over {given.seeds} seeds | AMP % | FM | WLP % |\n|---|---|---|---|")
    for algorithm in ("fedavg", "fedkf"):
        for readout in ("aca", "oca"):
            cells = []
            for metric, factor, digits in (("amp", 100, 1), ("fm", 1, 4), ("wlp", 100, 1)):
                values = [factor * v for v in scores[algorithm, readout, metric]]
                spread = stdev(values) if len(values) > 1 else 0.0
                cells.append(f"{mean(values):.{digits}f} ± {spread:.{digits}f}")
            print(f"| {algorithm} ({readout.upper()}) | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
