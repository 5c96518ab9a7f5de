"""Commands for many runs: sweeps, and the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.app import ConfigArgument, DataDirOption, SetOption, app

JobsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Runs at a time. [default: one a core]")
]
RecordsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep config, rounds and summary of each finished run here, too."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@app.command()
def sweep(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="YAML with `base:` and `grid:`.")],
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<suite>]")
    ] = None,
    jobs: JobsOption = None,
    records: RecordsOption = None,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """A grid of runs, resumable, that ends in tables of mean ± std."""
    from fedkf.cli.sweeping import run_sweep

    run_sweep(suite, out_, jobs, records, quiet)


@app.command()
def reproduce(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A table or figure; `list` shows them all.")
    ],
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "smoke",
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/reproduce-<scale>]")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="CONFIG", help="Other data than the scale's: a preset or file."),
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="These instead of the paper's.")
    ] = None,
    set_: SetOption = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Seeds 0 to N-1.")] = None,
    jobs: JobsOption = None,
    records: RecordsOption = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="Only from finished runs; start none.")
    ] = False,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """One table or figure of the paper, beside the paper's numbers."""
    from fedkf.cli.reproducing import Request, run_reproduce
    from fedkf.runs import config as configuration

    folder = out_ or Path("runs") / f"reproduce-{scale}"
    overrides = configuration.parse_set(set_ or [])
    request = Request(scale, data or [], algorithm or [], overrides, seeds)
    run_reproduce(what, request, folder, jobs, records, existing, quiet)


@app.command()
def distill(
    config: ConfigArgument = None,
    set_: SetOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(help="paper or works; may be given twice. [default: works]"),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of each student.")] = None,
    teacher_epochs: Annotated[int | None, typer.Option(min=1, help="Of the teacher.")] = None,
    lr: Annotated[float | None, typer.Option(help="Of the student.")] = None,
    generator_lr: Annotated[float | None, typer.Option(help="Of the generator's Adam.")] = None,
    lambda1: Annotated[float | None, typer.Option(help="Weight of the one-hot loss.")] = None,
    lambda2: Annotated[float | None, typer.Option(help="Weight of the activation loss.")] = None,
    adversarial: Annotated[
        bool | None, typer.Option(help="Let the generator seek what the student gets wrong.")
    ] = None,
    drawings: Annotated[
        bool | None, typer.Option(help="Show the student random drawings, too.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<config>-distill]")
    ] = None,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """A teacher, a student that never sees its data, and one on plain noise."""
    from fedkf.runs import config as configuration

    content, name = configuration.read(config)
    resolved = configuration.resolve(content, configuration.parse_set(set_ or []))
    changes = {
        "steps": steps,
        "teacher_epochs": teacher_epochs,
        "lr": lr,
        "generator_lr": generator_lr,
        "lambda1": lambda1,
        "lambda2": lambda2,
        "adversarial": adversarial,
        "drawings": drawings,
    }
    from fedkf.cli.distilling import run_distill

    folder = out_ or Path("runs") / f"{name}-distill"
    run_distill(name, resolved, settings or ["works"], changes, folder, quiet)
