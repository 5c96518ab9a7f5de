"""`fedkf algorithms`: the paper's Table I, live."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from rich.table import Table

from fedkf.cli.consoles import out
from fedkf.cli.imports import without_compiler
from fedkf.cli.options import ListOption
from fedkf.cli.tables import table


def algorithms(as_json: ListOption = False) -> None:
    """What each algorithm needs, discloses and costs, measured on a tiny model."""
    from fedkf.paper import operations

    with without_compiler():
        rows = operations.table()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        out.print(algorithms_table(rows))


def algorithms_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What each algorithm needs, discloses and costs; the paper's own word where it differs."""
    made = table(
        "per round and client: bytes in models, down/up, and passes outside the steps over all its "
        "data; per batch: passes forward/backward through model and generator",
        "algorithm",
        "fair",
        "proxy",
        "discloses",
        "bytes",
        "model",
        "generator",
        "outside",
        texts=("discloses",),
    )
    for name in ("algorithm", "bytes", "model", "generator", "outside"):
        made.columns[[str(column.header) for column in made.columns].index(name)].no_wrap = True
    for row in rows:
        passes, outside, discloses = row["passes"], row["passes_outside"], row["discloses"]
        made.add_row(
            row["name"],
            beside(row, "fairness_aware", yes(row["fairness_aware"]), yes),
            beside(row, "needs_proxy_data", yes(row["needs_proxy_data"]), yes),
            beside(
                row,
                "leaks",
                ", ".join(kind.replace("_", " ") for kind in discloses),
                lambda leaks: "more" if leaks else "no more",
            ),
            f"{row['bytes_down']:g}/{row['bytes_up']:g}",
            beside(row, "passes", classifier(passes), classifier),
            beside(row, "passes", generator(passes), generator),
            classifier(outside) if any(outside.values()) else "",
        )
    return made


def beside(row: Mapping[str, Any], key: str, ours: str, show: Callable[[Any], str]) -> str:
    """Ours, and what the paper prints if that is something else."""
    theirs = show(row["paper"][key]) if key in row["differs"] else ours
    return ours if theirs == ours else f"{ours} (paper: {theirs})"


def yes(value: bool) -> str:
    return "yes" if value else "no"


def through(model: str, passes: Mapping[str, float]) -> str:
    return f"{passes[f'{model}_forward']:g}/{passes[f'{model}_backward']:g}"


def classifier(passes: Mapping[str, float]) -> str:
    return through("classifier", passes)


def generator(passes: Mapping[str, float]) -> str:
    return through("generator", passes)
