"""`fedkf personalize`: what local training of its own gains each client."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import ObjectOption, ReadoutOption, RunArgument
from fedkf.cli.tables import percent, scores, table
from fedkf.metrics.sites import ACCURACY, SITE_METRICS


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
    """Train the model once more at each client: what it does there before and after."""
    from fedkf.runs import personalize as personalization

    result = personalization.personalize(
        run, method, epochs=epochs, lr=lr, mu=mu, readout=readout, workers=workers, say=say
    )
    if as_json:
        typer.echo(json.dumps(result))
        return
    metric = SITE_METRICS[result.get("metric", ACCURACY)]
    title = "" if metric.name == ACCURACY else f"{metric.label} of each client"
    unit = " %" if metric.percent else ""
    rows = table(title, "client", "tested", f"before{unit}", f"after{unit}", "gain")
    for c in result["clients"]:
        gain = percent(c["gain"], signed=True) if metric.percent else metric.show(c["gain"])
        rows.add_row(
            c["name"], str(c["tested"]), metric.show(c["before"]), metric.show(c["after"]), gain
        )
    out.print(rows)
    for key in ("before", "after"):
        if result[key]["amp"] is None:
            tested = any(c["tested"] for c in result["clients"])
            show("no client's test data can tell" if tested else "no client has test data")
            return
        show(f"{key}: {scores(result[key], metric.name)}")
    show(f"file: {run}/personalize-{result['method']}.json")
