"""`fedkf sweep`: a grid of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.cli.options import DataDirOption, JobsOption, QuietOption, RecordsOption


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
    """A grid of runs, resumable, that ends in tables of mean ± std and of paired differences."""
    from fedkf.cli.plans import raise_failures, run_plans, show_tables
    from fedkf.paper.differences import difference_table
    from fedkf.paper.grid import grid_table
    from fedkf.paper.tables import write
    from fedkf.runs.collect import gather
    from fedkf.runs.suite import read

    plans = read(suite).plans
    folder = out_ or Path("runs") / suite.stem
    finished, failures = run_plans(plans, folder, jobs, records, quiet)
    groups = gather(plans, finished)
    table = grid_table(suite.stem, groups)
    write([table], folder, "table")
    show_tables([table])
    if (less := difference_table(f"{suite.stem}: paired differences", groups)) is not None:
        write([less], folder, "differences")
        show_tables([less])
    show(f"files: {folder}")
    raise_failures(failures, folder)
