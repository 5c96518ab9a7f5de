"""What FedKF's generated samples must cost: accuracy of cheaper ones on real data.

    python benchmarks/frontier.py run RUNS [--records results/frontier] [--seeds 2] [--only NAME …]
                                  [--start FILE] [--cifar FILE]
    python benchmarks/frontier.py table|figure [--records results/frontier]

`run` trains every point of the frontier, one process, one run after another; what is finished is
skipped, what was cut off goes on. The run folders are in RUNS; the small records of finished runs
(configuration, summary, rounds) are copied to the records, from which `table` and `figure` are
made, together with the costs that `step.py --records` left there. A seed moves the partition, the
initial weights, the selection and the batches alike. `--start` is a generator that `fedkf distill`
left, `--cifar` an .npz file with CIFAR-10's images or some of them; the points that need them are
left out without.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean

LITE = ["generator.width=16", "generator.batch_size=16"]
POINTS: dict[str, list[str]] = {
    "fedavg": ["algorithm.name=fedavg"],
    "width16": ["generator.width=16"],
    "width16-batch16": LITE,
    "warp": ["generator.samples=warp"],
    "width16-reuse4": ["generator.width=16", "generator.reuse=4"],
    "width16-batch16-reuse2": [*LITE, "generator.reuse=2"],
    "width8": ["generator.width=8"],
    "width16-every4": ["generator.width=16", "generator.every=4"],
    "field": ["generator.samples=field"],
    "noise": ["generator.samples=noise"],
    "width16-batch16-delta8": [*LITE, "transport.downlink=delta8"],
    "width16-batch16-delta4": [*LITE, "transport.downlink=delta4"],
    "width16-batch16-up-half": [*LITE, "transport.uplink=half"],
    "width16-batch16-up-delta8": [*LITE, "transport.uplink=delta8"],
    "width16-batch32": ["generator.width=16", "generator.batch_size=32"],
    "width16-reuse2": ["generator.width=16", "generator.reuse=2"],
    "warp-batch16": ["generator.samples=warp", "generator.batch_size=16"],
    "width32": ["generator.width=32"],
    "width128": [],
    "width16-batch16-start": [*LITE, "generator.start={start}"],
    "alpha0.01-fedavg": ["data.alpha=0.01", "algorithm.name=fedavg"],
    "alpha0.01-width16-batch16": [*LITE, "data.alpha=0.01"],
    "alpha0.01-warp": ["data.alpha=0.01", "generator.samples=warp"],
    "cifar-fedavg": ["algorithm.name=fedavg"],
    "cifar-width16-batch16": LITE,
    "cifar-warp": ["generator.samples=warp"],
    "cifar-noise": ["generator.samples=noise"],
}
SHORT = ["federation.rounds=30", "federation.evaluate_every=5"]
CIFAR = ["data.source=npz", "data.path={cifar}", "model.name=lenet5", "federation.lr=0.05"]
VARIANT = r"^(alpha0.01|cifar)-|-(delta.|up-.*|start)$"
"""Other data or other messages: a step costs the same, and they are no points of the figure."""
PANELS = [(readout, metric) for readout in ("aca", "oca") for metric in ("amp", "wlp")]
KEPT = ("config.yaml", "summary.json", "rounds.jsonl")


def run(
    runs: Path, records: Path, seeds: int, only: list[str], given: dict[str, Path | None]
) -> None:
    missing = [key for key, path in given.items() if path is None]
    for seed in range(seeds):
        for name, options in POINTS.items():
            folder, record = runs / f"{name}-{seed}", records / f"{name}-{seed}"
            if (record / "summary.json").exists() or (only and name not in only):
                continue
            cifar = name.startswith("cifar-")
            options = [*SHORT, *(CIFAR if cifar else []), *options]
            if any(f"{{{key}}}" in option for key in missing for option in options):
                continue
            options += [f"federation.seed={seed}", f"data.seed={seed}"]
            command = [sys.executable, "-m", "fedkf", "run", "cifar10" if cifar else "letters"]
            command += ["--resume", "--workers=0"]
            command += [f"--set={option.format(**given)}" for option in options]
            print(folder.name, flush=True)
            subprocess.run([*command, "--out", str(folder)], check=True)
            record.mkdir(parents=True, exist_ok=True)
            for file in KEPT:
                shutil.copy(folder / file, record / file)


def scores(records: Path) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Per cent of every finished seed, by point, readout and metric."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for name in POINTS:
        for path in sorted(records.glob(f"{name}-?/summary.json")):
            readouts = json.loads(path.read_text())["readouts"]
            for panel in PANELS:
                readout, metric = panel
                values = found.setdefault(name, {}).setdefault(panel, [])
                values.append(100 * readouts[readout][metric])
    return found


def costs(records: Path) -> dict[str, float]:
    """FedAvg steps that a step takes; messages and partitions change nothing about that."""
    measured: dict[str, float] = json.loads((records / "steps.json").read_text())
    plain = {name: re.sub(VARIANT, "", name) for name in POINTS}
    return {name: measured[same] for name, same in plain.items() if same in measured}


def table(records: Path) -> None:
    print("| samples | ACA AMP | ACA WLP | OCA AMP | OCA WLP | a step costs |")
    print("|---|---|---|---|---|---|")
    cost = costs(records)
    for name, found in scores(records).items():
        cells = [
            f"{mean(values):.1f} ({', '.join(f'{v:.1f}' for v in values)})"
            for values in found.values()
        ]
        known = f"{cost[name]:.1f}" if name in cost and not name.startswith("cifar") else ""
        print(f"| {name} | {' | '.join(cells)} | {known} |")


def figure(records: Path) -> None:
    """AMP and WLP within each readout against the cost of a step; a bar joins the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from fedkf.charts.matplotlib_backend import save

    cost = costs(records)
    found = {n: v for n, v in scores(records).items() if n in cost and not re.search(VARIANT, n)}
    drawn, axes = pyplot.subplots(2, 2, figsize=(12, 8), sharex=True, layout="constrained")
    colours = pyplot.get_cmap("tab20").colors  # type: ignore[attr-defined]
    for panel, axis in zip(PANELS, axes.flat, strict=True):
        for number, (name, values) in enumerate(found.items()):
            seeds = values[panel]
            axis.plot([cost[name]] * len(seeds), seeds, "o-", color=colours[number], label=name)
        axis.set(xscale="log", title=f"{panel[0].upper()} {panel[1].upper()}, %")
        axis.set_xticks(ticks := [1, 2, 3, 5, 10, 20, 40], ticks)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    drawn.supxlabel("cost of a step, in steps of FedAvg")
    drawn.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    save(drawn, records / "frontier.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "table", "figure"))
    parser.add_argument("runs", nargs="?", type=Path)
    parser.add_argument("--records", type=Path, default=Path("results/frontier"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--start", type=Path)
    parser.add_argument("--cifar", type=Path)
    given = parser.parse_args()
    if given.action != "run":
        {"table": table, "figure": figure}[given.action](given.records)
    elif given.runs is None:
        parser.error("name a folder for the runs")
    else:
        files = {"start": given.start, "cifar": given.cifar}
        run(given.runs, given.records, given.seeds, given.only, files)


if __name__ == "__main__":
    main()
