"""`fedkf doctor`: whether this machine has what runs need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.core.errors import FedkfError


def doctor(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where runs would be written.")
    ] = Path("runs"),
) -> None:
    """What is installed, which device, which data is found; whether disk, locks and fork work."""
    from fedkf.runs.health import examine

    ill = []
    for finding in examine(folder):
        show(f"{'ok ' if finding.well else 'NO '} {finding.what}: {finding.found}")
        ill += [] if finding.well else [finding.what]
    if ill:
        raise FedkfError(f"not everything is well here: {', '.join(ill)}")
