"""`fedkf export`: the trained model for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import say, show
from fedkf.cli.options import RunArgument, refuse_file
from fedkf.core.errors import UserError, nearest


def export(
    run: RunArgument,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: RUN/export]")
    ] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="safetensors, torch or onnx. [default: the first two]"),
    ] = None,
    readout: Annotated[str, typer.Option(help="Which model: oca, aca or personal.")] = "oca",
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose, with --readout personal.")
    ] = None,
) -> None:
    """Take the trained model home: weights and JSON, a torch.export program, ONNX."""
    from fedkf.runs import trained
    from fedkf.runs.experiment import reporting_disk_errors
    from fedkf.runs.personal import file_name, personal_model
    from fedkf.runs.prediction import shared_model

    formats, folder = format_ or ["safetensors", "torch"], out_ or run / "export"
    for name in formats:
        if name not in trained.FORMATS:
            raise UserError(f"--format {name}: {nearest(name, trained.FORMATS)}")
    refuse_file(folder)
    if readout == "personal":
        model, name = personal_model(run, client, say=say), file_name(run, client)
    elif client is not None:
        raise UserError("--client goes with --readout personal: the others are the same for all")
    else:
        model, name = shared_model(run, readout, "export"), readout
    with reporting_disk_errors(folder):
        paths = trained.export(model, folder, name, formats)
    for path in paths:
        show(str(path))
