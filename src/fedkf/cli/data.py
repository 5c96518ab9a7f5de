"""`fedkf data`: which public data sets there are, and getting them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.consoles import err, out, show
from fedkf.cli.tables import table
from fedkf.core.errors import UserError, nearest

commands: typer.Typer = typer.Typer(
    name="data", help="Public data sets.", no_args_is_help=True, rich_markup_mode=None
)


@commands.command("list")
def list_() -> None:
    """Which data sets `data.source` may name, and which of them are here."""
    from fedkf.data.catalog import find
    from fedkf.data.natural import NATURAL
    from fedkf.data.public import DATASETS

    rows = table("", "name", "what", "where", texts=("what", "where"))
    rows.columns[0].no_wrap = True
    rows.add_row("digits", "1,797 handwritten digits, 8×8", "embedded")
    for dataset in (*DATASETS.values(), *(natural.dataset for natural in NATURAL.values())):
        found = find(dataset)
        absent = f"`fedkf data get {dataset.name}`" if dataset.downloads else "not here"
        rows.add_row(dataset.name, dataset.about, str(found[1][0].path) if found else absent)
    out.print(rows)


@commands.command("get")
def get_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `fedkf data list` names it.")],
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Where to put it.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Fetch from below this address instead.")
    ] = None,
) -> None:
    """Download a data set; a download that was broken off goes on."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from fedkf.data.catalog import find
    from fedkf.data.download import get
    from fedkf.data.natural import NATURAL
    from fedkf.data.public import DATASETS

    known = {**DATASETS, **{name: natural.dataset for name, natural in NATURAL.items()}}
    if name not in known:
        raise UserError(f"no data set {name!r}; {nearest(name, known)}")
    dataset = known[name]
    if data_dir is None and (found := find(dataset)):
        show(f"{name} is here: {found[1][0].path}")
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    tasks: dict[str, Any] = {}

    def progress(file: str, done: int, total: int | None) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done, total=total)

    with bar:
        paths = get(dataset, data_dir / name if data_dir else None, mirror, progress)
    for path in paths:
        show(str(path))
