"""`fedkf partition`: how the data is divided, before any compute is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import ConfigArgument, DataDirOption, SetOption, refuse_file, resolve
from fedkf.cli.tables import table


def partition(
    config: ConfigArgument = None,
    set_: SetOption = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<config>-partition]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print partition.json only.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """How the data is divided over clients: numbers, warnings and the bubble plot."""
    settings, name = resolve(config, set_)

    from fedkf.charts.matplotlib_backend import draw
    from fedkf.core.records import Partition
    from fedkf.data.describe import describe
    from fedkf.report.figures import partition_figure
    from fedkf.runs.setup import load_source, make_data, settle

    source = load_source(settings, say)
    about = describe(make_data(settle(settings, source), source))
    folder = out_ or Path("runs") / f"{name}-partition"
    refuse_file(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.json").write_text(json.dumps(about, indent=2) + "\n")
    figures = [folder / f"partition.{ending}" for ending in ("png", "svg")]
    draw(partition_figure(Partition.read(about)), *figures)
    if as_json:
        typer.echo(json.dumps(about))
        return
    show_partition(about)
    show(f"files: {folder}")


def show_partition(about: dict[str, Any]) -> None:
    """The clients' sizes and classes, how different they are, and what to beware of."""
    from fedkf.data.describe import warnings

    shown = about["class_names"] if about["classes"] <= 12 else []
    rows = table("", "client", "train", "test", "held", *shown)
    for client in about["clients"]:
        counts = [str(n) if n else "·" for n in client["classes"]] if shown else []
        held = sum(1 for n in client["classes"] if n)
        rows.add_row(client["name"], str(client["train"]), str(client["test"]), str(held), *counts)
    out.print(rows)
    show(
        f"heterogeneity: {about['total_variation']:.2f} (mean distance of a client's labels from "
        f"all clients', 0 alike to 1 nothing shared); {about['effective_classes']:.1f} of "
        f"{about['classes']} classes are in effect at a client"
    )
    for text in warnings(about):
        show(f"note: {text}")
