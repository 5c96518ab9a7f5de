"""`fedkf personalize`: what local training of its own gains each client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from fedkf.cli.app import err, out
from fedkf.cli.home import percent
from fedkf.cli.tables import table
from fedkf.runs.personalize import personalize


def show_personalized(run: Path, as_json: bool, **options: Any) -> None:
    result = personalize(run, say=lambda text: err.print(text, soft_wrap=True), **options)
    if as_json:
        typer.echo(json.dumps(result))
        return
    rows = table("", "client", "tested", "before %", "after %", "gain")
    for c in result["clients"]:
        shown = (percent(c["before"]), percent(c["after"]), percent(c["gain"], signed=True))
        rows.add_row(c["name"], str(c["tested"]), *shown)
    out.print(rows)
    for key in ("before", "after"):
        score = result[key]
        if score["amp"] is None:
            out.print("no client has test data")
            return
        out.print(
            f"{key}: AMP {percent(score['amp'])}, FM {score['fm']:.4f}, WLP {percent(score['wlp'])}"
        )
    out.print(f"file: {run}/personalize-{result['method']}.json", soft_wrap=True)
