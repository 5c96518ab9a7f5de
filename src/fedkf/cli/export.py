"""`fedkf export`: the trained model for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.cli.options import ReadoutOption, RunArgument, refuse_file
from fedkf.core.errors import UserError, nearest

FORMATS = ("safetensors", "torch", "onnx")


def export(
    run: RunArgument,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: RUN/export]")
    ] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="safetensors, torch or onnx. [default: the first two]"),
    ] = None,
    readout: ReadoutOption = "oca",
) -> None:
    """Take the trained model home: weights and JSON, a torch.export program, ONNX."""
    from fedkf.runs import trained
    from fedkf.runs.prediction import shared_model

    formats, folder = format_ or ["safetensors", "torch"], out_ or run / "export"
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"--format {name}: {nearest(name, FORMATS)}")
    refuse_file(folder)
    for path in trained.export(shared_model(run, readout, "export"), folder, readout, formats):
        show(str(path))
