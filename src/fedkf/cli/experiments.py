"""Commands for many runs: sweeps, and the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.app import DataDirOption, app

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
