"""`fedkf predict`: classes of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.options import ListOption, ReadoutOption, RunArgument


def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.")],
    readout: ReadoutOption = "oca",
    as_json: ListOption = False,
) -> None:
    """Classify images with a trained model."""
    from fedkf.runs.prediction import classify, shared_model

    found = classify(shared_model(run, readout, "use"), images)
    if as_json:
        typer.echo(json.dumps(found))
        return
    for row in found:
        typer.echo(f"{row['image']}: {row['class']} ({100 * row['probability']:.1f} %)")
