"""`fedkf check`: whether a run's files are what the run had written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.core.errors import FedkfError


def check(run: Annotated[Path, typer.Argument(metavar="RUN", show_default=False)]) -> None:
    """Check every file of a run against its digest and its shape; nothing is changed."""
    from fedkf.runs.integrity import check_run

    problems = check_run(run)
    for sentence in problems:
        show(sentence)
    if problems:
        many = len(problems) > 1
        raise FedkfError(
            f"{len(problems)} {'files' if many else 'file'} of {run} cannot be trusted"
        )
    show(f"{run}: every file is what the run had written")
