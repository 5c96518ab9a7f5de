"""`fedkf demo`: FedAvg against FedKF on the embedded digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import QuietOption, resolve
from fedkf.cli.run import run_with_progress
from fedkf.cli.tables import percent, results_table, table

TITLES = {"fedavg": "FedAvg", "fedkf": "FedKF"}


def demo(
    out_: Annotated[Path, typer.Option("--out", metavar="DIR")] = Path("runs/demo"),
    workers: Annotated[int | None, typer.Option(help="Worker processes.")] = None,
    seed: Annotated[int, typer.Option(help="Of the partition and of the training.")] = 0,
    quiet: QuietOption = False,
) -> None:
    """FedAvg against FedKF on the embedded digits: tables, a figure and a report."""
    from fedkf.charts.matplotlib_backend import draw
    from fedkf.report.figures import comparison
    from fedkf.report.output import write_report
    from fedkf.report.runs import read_runs
    from fedkf.runs.store import RunFolder

    summaries, accuracies = {}, {}
    if not quiet:
        say("1,797 handwritten digits over 10 clients whose data differ a lot (Dirichlet, α = 0.1)")
    for name, title in TITLES.items():
        seeds = {"data.seed": seed, "federation.seed": seed}
        config, _ = resolve(
            "digits", None, {"algorithm.name": name, "engine.workers": workers, **seeds}
        )
        run = RunFolder(out_ / name)
        run.clear()
        summaries[title] = run_with_progress(
            config, run.path, False, quiet, title, advice="a new demo starts afresh"
        )
        for readout, score in (run.rounds()[-1].readouts or {}).items():
            accuracies[f"{title} {readout.upper()}"] = score.accuracy
    figure, folders = out_ / "comparison.png", [out_ / name for name in TITLES]
    draw(comparison(read_runs(folders), "FedAvg and FedKF on digits, α = 0.1"), figure)
    out.print(results_table(summaries))
    out.print(clients_table(run.read_json("partition.json"), accuracies))
    report = write_report(folders, out_ / "report.html", None, say, quiet)
    show(f"figure: {figure}\nfiles:  {out_}\nreport: {report}")


def clients_table(
    partition: Mapping[str, Any], accuracies: Mapping[str, Sequence[float | None]]
) -> Table:
    """Accuracy of every client under each model."""
    made = table("accuracy of each client, %", "client", "train", "test", *accuracies)
    for k, client in enumerate(partition["clients"]):
        shown = [percent(row[k]) for row in accuracies.values()]
        made.add_row(client["name"], str(client["train"]), str(client["test"]), *shown)
    return made
