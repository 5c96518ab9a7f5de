"""`fedkf run`: one experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkf.cli.consoles import err, once, out, show
from fedkf.cli.interruption import interruptible
from fedkf.cli.options import (
    ConfigArgument,
    DataDirOption,
    QuietOption,
    ResumeOption,
    RunFolderOption,
    SetOption,
    SummaryOption,
    resolve,
    run_folder,
)
from fedkf.cli.tables import cost_table, gain_table, group_tables, holdout_table, results_table

if TYPE_CHECKING:
    from fedkf.runs.schema import Config


def run(
    config: ConfigArgument = None,
    set_: SetOption = None,
    out_: RunFolderOption = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; 0 does everything in this one.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Where clients run: local, flower or package.module:object.")
    ] = None,
    resume: ResumeOption = False,
    quiet: QuietOption = False,
    as_json: SummaryOption = False,
    log: Annotated[
        str | None,
        typer.Option(help="Also log to: tensorboard, mlflow, wandb or package.module:factory."),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run one experiment."""
    given = {
        "engine.workers": workers,
        "engine.name": engine,
        "output.log": log,
        "output.dir": str(out_) if out_ is not None else None,
    }
    settings, name = resolve(config, set_, given)
    folder = run_folder(settings, name)
    summary = run_with_progress(settings, folder, resume, quiet)
    if as_json:
        typer.echo(json.dumps(summary))
        return
    out.print(results_table({summary["algorithm"]: summary}))
    show_sites(folder)
    if (held := holdout_table(summary)) is not None:
        out.print(held)
    for made in group_tables(summary.get("groups", {})):
        out.print(made)
    show_cost(folder)
    show_gain(folder)
    show(f"files: {folder}")


def run_with_progress(
    config: Config,
    folder: Path,
    resume: bool,
    quiet: bool,
    title: str = "",
    advice: str = "add --resume to go on",
    heard: set[str] | None = None,
) -> dict[str, Any]:
    """Run an experiment with its progress on the screen; its summary.

    Notes that were `heard` are not said again.
    """
    from fedkf.cli.progress import make_progress
    from fedkf.runs.experiment import execute

    progress = make_progress(config.federation.rounds, title or config.algorithm.name, quiet, err)
    sentence = f"stopped; nothing that was finished is lost, {advice} ({folder})"
    said = progress.say if heard is None else once(progress.say, heard)
    with interruptible(sentence), progress:
        return execute(config, folder, resume, [progress], say=said).summary


def show_sites(folder: Path) -> None:
    """After a run that asked more of its clients than accuracy: what each of them gets."""
    from fedkf.cli.tables import sites_table, unknown
    from fedkf.runs.store import RunFolder

    made = sites_table(RunFolder(folder))
    if made is not None:
        out.print(made)
    for sentence in unknown(RunFolder(folder)):
        show(sentence)


def show_cost(folder: Path) -> None:
    """After a run: accuracy against the time and the bytes that it took."""
    from fedkf.runs.store import RunFolder

    made = cost_table(RunFolder(folder).rounds())
    if made is not None:
        out.print(made)


def show_gain(folder: Path) -> None:
    """After a run: what federating gains each client, where its counterpart lies beside it."""
    from fedkf.runs.comparison import gains, trained_alone
    from fedkf.runs.store import RunFolder

    run = RunFolder(folder)
    found = gains(run)
    for gain in found:
        out.print(gain_table(gain))
    if not found and trained_alone(run):
        show(
            "each client trained alone; run the same with another algorithm to see what federating "
            "gains, client by client"
        )
