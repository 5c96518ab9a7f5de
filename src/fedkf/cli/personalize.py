"""`fedkf personalize`: what local training of its own gains each client."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import ObjectOption, ReadoutOption, RunArgument
from fedkf.cli.tables import percent, scores, table


def personalize(
    run: RunArgument,
    method: Annotated[str, typer.Option(help="finetune or proximal.")] = "finetune",
    epochs: Annotated[int | None, typer.Option(help="Of local training. [default: the run's]")] = (
        None
    ),
    lr: Annotated[float | None, typer.Option(help="Learning rate. [default: the run's]")] = None,
    mu: Annotated[
        float | None, typer.Option(help="Weight of the proximal term. [default: 0.1]")
    ] = None,
    readout: ReadoutOption = "oca",
    workers: Annotated[int | None, typer.Option(help="Worker processes.", min=0)] = None,
    as_json: ObjectOption = False,
) -> None:
    """Train the model once more at each client: its accuracy before and after."""
    from fedkf.runs import personalize as personalization

    result = personalization.personalize(
        run, method, epochs=epochs, lr=lr, mu=mu, readout=readout, workers=workers, say=say
    )
    if as_json:
        typer.echo(json.dumps(result))
        return
    rows = table("", "client", "tested", "before %", "after %", "gain")
    for c in result["clients"]:
        shown = (percent(c["before"]), percent(c["after"]), percent(c["gain"], signed=True))
        rows.add_row(c["name"], str(c["tested"]), *shown)
    out.print(rows)
    for key in ("before", "after"):
        if result[key]["amp"] is None:
            show("no client has test data")
            return
        show(f"{key}: {scores(result[key])}")
    show(f"file: {run}/personalize-{result['method']}.json")
