"""`fedkf report`: one HTML file about one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import say, show
from fedkf.cli.options import FoldersArgument


def report(
    folders: FoldersArgument,
    out_: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="[default: report.html beside the runs]"),
    ] = None,
    samples: Annotated[
        bool | None,
        typer.Option(
            help="Show samples of the models, also of models whose code the run names, or none. "
            "[default: of models that ship with fedkf]"
        ),
    ] = None,
) -> None:
    """One HTML file that explains a run, or compares several; it opens offline."""
    from fedkf.report.output import write_report

    show(f"report: {write_report(folders, out_, samples, say)}")
