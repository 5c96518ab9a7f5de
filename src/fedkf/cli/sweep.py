"""`fedkf sweep`: a grid of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkf.cli.consoles import say, show
from fedkf.cli.options import DataDirOption, JobsOption, QuietOption, RecordsOption
from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed

if TYPE_CHECKING:
    from fedkf.runs.space import Search
    from fedkf.runs.suite import Plan


def sweep(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="YAML: `base:`, `grid:`, `search:`.")
    ],
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<suite>]")
    ] = None,
    search: Annotated[
        bool,
        typer.Option("--search", help="First tune every algorithm as the suite's `search:` says."),
    ] = False,
    jobs: JobsOption = None,
    records: RecordsOption = None,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """A grid of runs, resumable, that ends in tables of mean ± std and of paired differences."""
    from fedkf.cli.plans import raise_failures, run_plans, show_tables
    from fedkf.metrics.sites import ACCURACY, SITE_METRICS
    from fedkf.paper.differences import difference_table
    from fedkf.paper.grid import grid_table
    from fedkf.paper.tables import write
    from fedkf.runs.collect import gather
    from fedkf.runs.space import read_search
    from fedkf.runs.suite import read

    given = read(suite)
    plans, title, asked = given.plans, suite.stem, read_search(given)
    folder = out_ or Path("runs") / suite.stem
    if search:
        if asked is None:
            raise UserError(f"--search: {suite} has no `search:` that says what may be tried")
        check_installed("search", "--search needs Optuna", "optuna")
        plans, title = tune(asked, suite.stem, folder, (jobs, records, quiet)), f"{title}, tuned"
    elif asked is not None:
        say(f"note: nothing is tuned; `--search` does what {suite} says under `search:`")
    finished, failures = run_plans(plans, folder, jobs, records, quiet)
    groups = gather(plans, finished)
    kinds = {group.judged_by for group in groups if group.runs} - {ACCURACY}
    if kinds:
        title += f", over the clients' {' or '.join(SITE_METRICS[k].label for k in sorted(kinds))}"
    table = grid_table(title, groups)
    write([table], folder, "table")
    show_tables([table])
    if (less := difference_table(f"{title}: paired differences", groups)) is not None:
        write([less], folder, "differences")
        show_tables([less])
    show(f"files: {folder}")
    raise_failures(failures, folder)


def tune(
    asked: Search, name: str, folder: Path, how: tuple[int | None, Path | None, bool]
) -> list[Plan]:
    """Search, tell what was found, and give the grid's runs with the best settings."""
    from fedkf.cli.plans import run_trials, show_tables
    from fedkf.paper.tables import write
    from fedkf.paper.tuning import search_table
    from fedkf.runs.search import tuned

    jobs, records, quiet = how
    found = run_trials(asked, folder, jobs, records, quiet)
    table = search_table(f"{name}: search", asked, found)
    for place in [folder, *([records] if records else [])]:
        write([table], place, "search")
    show_tables([table])
    return tuned(asked, found)
