"""`fedkf partition`: how the data is divided, before any compute is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import ConfigArgument, DataDirOption, SetOption, refuse_file, resolve
from fedkf.cli.tables import percent, table


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
    from fedkf.core.holdings import Partition
    from fedkf.data.describe import describe
    from fedkf.data.heterogeneity import measure
    from fedkf.report.figures import partition_figure
    from fedkf.runs.places import unwritable
    from fedkf.runs.setup import load_samples, make_data, make_holdout, settle

    samples = load_samples(settings, say)
    settled = settle(settings, samples.source)
    data = make_data(settled, samples.source)
    held = make_holdout(settled, samples.holdout)
    about = describe(data, measure(data, settings.data.seed), held)
    folder = out_ or Path("runs") / f"{name}-partition"
    refuse_file(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "partition.json").write_text(json.dumps(about, indent=2) + "\n")
        figures = [folder / f"partition.{ending}" for ending in ("png", "svg")]
        draw(partition_figure(Partition.read(about)), *figures)
    except OSError as error:
        raise unwritable(error, folder) from None
    if as_json:
        typer.echo(json.dumps(about))
        return
    show_partition(about)
    show(f"files: {folder}")


def show_partition(about: dict[str, Any]) -> None:
    """The clients' sizes and classes, how different they are, and what to beware of."""
    from fedkf.core.holdings import Partition
    from fedkf.data.describe import warnings
    from fedkf.data.findings import inputs_differ

    differences = about["differences"]
    own = [
        (title, differences[name]["clients"], shape)
        for title, name, shape in (("apart %", "inputs", ".0f"), ("own gain", "transfer", "+.0f"))
        if inputs_differ(differences) and differences[name]["clients"]
    ]
    shown = about["class_names"] if about["classes"] <= 12 else []
    rows = table("", "client", "train", "test", "held", *shown, *(title for title, *_ in own))
    for client in about["clients"]:
        counts = [str(n) if n else "·" for n in client["classes"]] if shown else []
        held = sum(1 for n in client["classes"] if n)
        numbers = [str(n) for n in (client["train"], client["test"], held)]
        known = [(values.get(client["name"]), shape) for _, values, shape in own]
        more = ["–" if value is None else format(100 * value, shape) for value, shape in known]
        rows.add_row(client["name"], *numbers, *counts, *more)
    out.print(rows)
    for site in about.get("holdout", ()):
        show(f"held out: {site['name']}, {site['test']} samples, all to test with")
    out.print(differences_table(differences))
    show(
        f"heterogeneity: {Partition.read(about).heterogeneity:.2f} (the larger one of labels and "
        f"inputs); labels are {about['total_variation']:.2f} away from all clients' on average, "
        f"from 0 alike to 1 nothing shared, and {about['effective_classes']:.1f} of "
        f"{about['classes']} classes are in effect at a client"
    )
    for text in differences["findings"]:
        show(text)
    for text in warnings(about):
        show(f"note: {text}")


def differences_table(measured: dict[str, Any]) -> Table:
    """The measures, each with what it is; 0 is alike for all of them."""
    rows = table("", "what differs", "measure", "±")
    rows.add_column("which is", justify="left")
    rows.add_row(
        "labels", f"{measured['labels']:.2f}", "", "distance from all clients', less chance"
    )
    inputs, transfer = measured.get("inputs", {}), measured.get("transfer", {})
    if "score" in inputs:
        sure = f"{2 * inputs['error']:.2f}"
        about = "clients told apart, beyond what labels tell"
        rows.add_row("inputs", f"{inputs['score']:.2f}", sure, about)
    for name in ("means", "spreads"):
        if name in inputs:
            share = f"{inputs[name]:.2f}"
            rows.add_row(f"  their {name}", share, "", "share of a class's variance by client")
    if "gap" in transfer:
        gap, sure = percent(transfer["gap"], signed=True), percent(2 * transfer["error"])
        rows.add_row("meaning", gap, sure, "points that own samples teach more")
    rows.add_row(
        "sizes", f"{measured['quantity']:.2f}", "", "towards 1 one client holds everything"
    )
    return rows
