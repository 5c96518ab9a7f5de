"""Arguments and options that several commands have, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkf.cli.consoles import say
from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed

if TYPE_CHECKING:
    from fedkf.runs.schema import Config


def look_in(folder: Path | None) -> Path | None:
    """Make a folder the first in which data is looked for, here and in child processes."""
    if folder is not None:
        if not folder.is_dir():
            raise UserError(f"--data-dir: no folder {folder}")
        others = os.environ.get("FEDKF_DATA")
        places = [str(folder.absolute()), *([others] if others else [])]
        os.environ["FEDKF_DATA"] = os.pathsep.join(places)
    return folder


ConfigArgument = Annotated[
    str | None, typer.Argument(metavar="[CONFIG]", help="A file or a preset; none means digits.")
]
NeededConfigArgument = Annotated[str, typer.Argument(metavar="CONFIG", help="A file or a preset.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a key, such as federation.rounds=30."
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", callback=look_in, help="Look for data here before FEDKF_DATA."
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
ReadoutOption = Annotated[str, typer.Option(help="Which model: oca or aca.")]
FoldersArgument = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, or of folders of runs.")
]
RunFolderOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="[default: runs/<config>-<algorithm>-<seed>]"),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR.")]
JobsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Runs at a time. [default: one a core]")
]
RecordsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep config, rounds and summary of each finished run here, too."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress.")]
SummaryOption = Annotated[bool, typer.Option("--json", help="Print summary.json only.")]
ObjectOption = Annotated[bool, typer.Option("--json", help="As one object.")]
ListOption = Annotated[bool, typer.Option("--json", help="As a list of objects.")]


def resolve(
    config: str | None, set_: Sequence[str] | None, more: Mapping[str, Any] | None = None
) -> tuple[Config, str]:
    """The configuration that CONFIG and --set describe, and its name; `more` wins over both.

    What is None in `more` was not given.
    """
    from fedkf.runs import config as configuration
    from fedkf.runs.defaults import chosen

    overrides = configuration.parse_set(set_ or [])
    given = {key: value for key, value in (more or {}).items() if value is not None}
    overrides |= given
    content, name = chosen(config, overrides)
    if config is not None and (sentence := configuration.dropped(content, overrides)):
        say(f"note: {sentence}")
    return configuration.resolve(content, overrides), name


def run_folder(settings: Config, name: str) -> Path:
    """Where a run goes: as configured, else a folder named after what it is."""
    algorithm = settings.algorithm.name.replace(":", ".")
    default = f"runs/{name}-{algorithm}-{settings.federation.seed}"
    return Path(settings.output.dir or default)


def refuse_file(folder: Path) -> None:
    """Say so where --out names a file and not a folder."""
    if folder.is_file():
        raise UserError(f"--out {folder} is a file, not a folder")


def needs_flower() -> None:
    """Flower carries the messages."""
    check_installed("flower", "a deployment needs Flower", "flwr")
