"""`fedkf demo`: FedAvg against FedKF on the embedded digits."""

from __future__ import annotations

from pathlib import Path

from fedkf.charts.matplotlib_backend import draw
from fedkf.cli.app import err, out
from fedkf.cli.looking import write_report
from fedkf.cli.running import run_with_progress
from fedkf.cli.tables import clients_table, results_table
from fedkf.report.figures import comparison
from fedkf.report.runs import read_runs
from fedkf.runs import config as configuration
from fedkf.runs.store import RunFolder

TITLES = {"fedavg": "FedAvg", "fedkf": "FedKF"}


def run_demo(folder: Path, workers: int | None, seed: int, quiet: bool) -> None:
    """Run both, print the tables, draw the figure, write the report."""
    content, _ = configuration.read("digits")
    summaries, accuracies = {}, {}
    if not quiet:
        err.print(
            "1,797 handwritten digits over 10 clients whose data differ a lot (Dirichlet, α = 0.1)"
        )
    for name, title in TITLES.items():
        overrides = {"algorithm.name": name, "data.seed": seed, "federation.seed": seed}
        if workers is not None:
            overrides["engine.workers"] = workers
        config = configuration.resolve(content, overrides)
        run = RunFolder(folder / name)
        run.clear()
        summaries[title] = run_with_progress(
            config, run.path, False, quiet, title, advice="a new demo starts afresh"
        )
        for readout, score in run.rounds()[-1]["readouts"].items():
            accuracies[f"{title} {readout.upper()}"] = score["accuracy"]
    figure, folders = folder / "comparison.png", [folder / name for name in TITLES]
    draw(comparison(read_runs(folders), "FedAvg and FedKF on digits, α = 0.1"), figure)
    out.print(results_table(summaries))
    out.print(clients_table(run.read_json("partition.json"), accuracies))
    report = write_report(folders, folder / "report.html", None, quiet)
    out.print(f"figure: {figure}\nfiles:  {folder}\nreport: {report}", soft_wrap=True)
