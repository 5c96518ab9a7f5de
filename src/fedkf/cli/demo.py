"""`fedkf demo`: FedAvg against FedKF on the embedded digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import QuietOption, resolve
from fedkf.cli.run import run_with_progress
from fedkf.cli.tables import percent, results_table, table
from fedkf.core.errors import FedkfError, UserError

if TYPE_CHECKING:
    from fedkf.runs.schema import Config
    from fedkf.runs.store import RunFolder

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

    runs = {name: RunFolder(out_ / name) for name in TITLES}
    for name, run in runs.items():
        refuse_other(run, name)
    summaries, accuracies = {}, {}
    if not quiet:
        say("1,797 handwritten digits over 10 clients whose data differ a lot (Dirichlet, α = 0.1)")
    for name, title in TITLES.items():
        run, config = runs[name], demo_config(name, workers, seed)
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


def demo_config(algorithm: str, workers: int | None, seed: int) -> Config:
    """What a demo runs for an algorithm."""
    seeds = {"data.seed": seed, "federation.seed": seed}
    given = {"algorithm.name": algorithm, "engine.workers": workers, **seeds}
    return resolve("digits", None, given)[0]


def refuse_other(run: RunFolder, algorithm: str) -> None:
    """Refuse a folder with a run that is no demo's: a new demo removes what it finds there."""
    held = (run / "config.yaml").exists() or run.begun()
    if held and not of_demo(run, algorithm):
        raise UserError(f"{run.path} holds a run that is no demo's; choose another folder (--out)")


def of_demo(run: RunFolder, algorithm: str) -> bool:
    """Whether a run has the settings of a demo, whatever its seed."""
    from fedkf.runs.suite import difference

    try:
        found = run.config()
    except FedkfError:
        return False
    if found is None:
        return False
    return difference(demo_config(algorithm, None, found.federation.seed), found) is None


def clients_table(
    partition: Mapping[str, Any], accuracies: Mapping[str, Sequence[float | None]]
) -> Table:
    """Accuracy of every client under each model."""
    made = table("accuracy of each client, %", "client", "train", "test", *accuracies)
    for k, client in enumerate(partition["clients"]):
        shown = [percent(row[k]) for row in accuracies.values()]
        made.add_row(client["name"], str(client["train"]), str(client["test"]), *shown)
    return made
