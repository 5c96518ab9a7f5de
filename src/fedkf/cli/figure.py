"""`fedkf figure`: one plot of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.cli.options import FoldersArgument


def figure(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="curves, clients, gain, partition, spread, losses, communication or time.",
        ),
    ],
    folders: FoldersArgument,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="pdf, svg or png. [default: --out's, or pdf]"),
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: KIND.FORMAT]")
    ] = None,
) -> None:
    """One plot of one or several runs, in a style fit for a paper."""
    from fedkf.report.output import write_figures

    for path in write_figures(kind, folders, format_, out_):
        show(f"figure: {path}")
