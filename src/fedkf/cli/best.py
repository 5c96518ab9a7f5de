"""`fedkf best`: the best setting of each algorithm among runs."""

from __future__ import annotations

import json
import shlex
import statistics
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from fedkf.cli.consoles import out, show
from fedkf.cli.options import FoldersArgument, ListOption, ReadoutOption
from fedkf.cli.tables import table
from fedkf.metrics.sites import over

if TYPE_CHECKING:
    from fedkf.runs.best import Setting


def best(
    folders: FoldersArgument,
    metric: Annotated[str, typer.Option(help="By which metric: amp, fm, wlp, …")] = "amp",
    readout: ReadoutOption = "oca",
    as_json: ListOption = False,
) -> None:
    """The best setting of each algorithm among finished runs, such as a sweep's, over seeds."""
    from fedkf.runs.best import best as find

    found = find(folders, readout, metric)
    if as_json:
        typer.echo(json.dumps([setting.as_json(readout, metric) for setting in found]))
        return
    for _, same in groupby(found, key=lambda setting: str(setting.data)):
        show_best(list(same), readout, metric)


def show_best(found: list[Setting], readout: str, metric: str) -> None:
    """The algorithms on one division of data, the best first, and how to run the winner again."""
    about = over(found[0].group.judged_by)[metric]
    title = ", ".join(f"{short(key)} = {value}" for key, value in found[0].data.items())
    head = f"{readout.upper()} {about.heading}"
    rows = table(title, "algorithm", "setting", "of", "seeds", head, texts=("setting",))
    for setting in found:
        keys = ", ".join(f"{short(key)}={value}" for key, value in setting.keys.items())
        spread = statistics.stdev(setting.values) if len(setting.values) > 1 else None
        value = about.show(setting.mean) + ("" if spread is None else f" ± {about.show(spread)}")
        count = str(len(setting.values))
        rows.add_row(setting.algorithm, keys or "one only", str(setting.tried), count, value)
    out.print(rows)
    again = shlex.quote(str(found[0].group.runs[0].path / "config.yaml"))
    show(f"best: {found[0].algorithm}; fedkf run {again} --out DIR repeats its first run")


def short(key: str) -> str:
    """A key without its section."""
    return key.split(".", 1)[-1]
