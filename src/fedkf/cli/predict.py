"""`fedkf predict`: what a trained model tells of images, rows of a table, signals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.consoles import say
from fedkf.cli.options import ListOption, ReadoutOption, RunArgument

RISK = " (logarithm of a relative risk: higher means sooner)"


def predict(
    run: RunArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Images; tables or signals, if the run's data were; .npz files."
        ),
    ],
    readout: ReadoutOption = "oca",
    as_json: ListOption = False,
) -> None:
    """What a trained model tells of images, of new rows of a table or of signals."""
    from fedkf.runs.prediction import predictions, shared_model

    trained = shared_model(run, readout, "use")
    found = predictions(trained, files, say)
    if as_json:
        typer.echo(json.dumps(found))
        return
    for row in found:
        typer.echo(f"{place(row)}: {told(row, trained.objective.targets == 'time')}")


def place(row: dict[str, Any]) -> str:
    """Where a person finds what was predicted."""
    if "image" in row:
        return str(row["image"])
    counted = next(key for key in ("line", "sample", "row") if key in row)
    return f"{row['file']}, {counted} {row[counted]}"


def told(row: dict[str, Any], risk: bool = False) -> str:
    """A class and how sure the model is of it, or a number, which may be a risk."""
    if "value" in row:
        return f"{row['value']:.6g}{RISK if risk else ''}"
    return f"{row['class']} ({100 * row['probability']:.1f} %)"
