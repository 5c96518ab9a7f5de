"""`fedkf inspect`: which clients and uploads of a run were unusual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.consoles import out, show
from fedkf.cli.options import ObjectOption
from fedkf.cli.tables import table


def inspect(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, also a live one.")
    ],
    most: Annotated[int, typer.Option(metavar="N", min=1, help="Show so many uploads.")] = 10,
    as_json: ObjectOption = False,
) -> None:
    """Rank clients and their uploads by how unusual they were."""
    from fedkf.runs.inspection import inspect as look

    found = look(run)
    if as_json:
        typer.echo(json.dumps(found))
        return
    show_clients(found["clients"])
    show_uploads(found["uploads"][:most], len(found["uploads"]))


def show_clients(clients: list[dict[str, Any]]) -> None:
    """A row a client, the most unusual first."""
    rows = table(
        "clients, the most unusual first; ratio: distance moved, next to the round's median; "
        "cosine: with the mean direction of the others",
        "client",
        "unusual",
        "uploads",
        "refused",
        "ratio",
        "largest",
        "cosine",
        "least",
    )
    for c in clients:
        numbers = c["ratio"]["median"], c["ratio"]["largest"]
        angles = c["cosine"]["median"], c["cosine"]["least"]
        shown = [number(value) for value in (*numbers, *angles)]
        rows.add_row(c["name"], number(c["unusual"]), str(c["uploads"]), str(c["refused"]), *shown)
    out.print(rows)


def show_uploads(uploads: list[dict[str, Any]], of: int) -> None:
    """A row an upload, then why those that were refused were."""
    title = f"the {len(uploads)} most unusual of {of} uploads"
    rows = table(title, "client", "round", "unusual", "distance", "ratio", "cosine", "")
    for u in uploads:
        values = [number(u[key]) for key in ("unusual", "distance", "ratio", "cosine")]
        rows.add_row(u["name"], str(u["round"]), *values, "refused" if u["refused"] else "")
    out.print(rows)
    for u in uploads:
        if u["refused"]:
            show(f"{u['name']}, round {u['round']}: {u['refused']}")


def number(value: float | None) -> str:
    """Three digits, or a dash where there is none."""
    return "–" if value is None else f"{value:.3g}"
