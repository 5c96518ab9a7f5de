"""`fedkf coordinator`: experiments across sites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkf.cli.consoles import err, out, show
from fedkf.cli.interruption import interruptible
from fedkf.cli.options import (
    NeededConfigArgument,
    ObjectOption,
    QuietOption,
    ResumeOption,
    RunFolderOption,
    SetOption,
    SummaryOption,
    needs_flower,
    resolve,
    run_folder,
)
from fedkf.cli.tables import results_table, sites_table, table
from fedkf.core.errors import UserError

if TYPE_CHECKING:
    from fedkf.flower.coordinator import Coordinator
    from fedkf.flower.jobs import Job
    from fedkf.runs.schema import Config

commands = typer.Typer(
    name="coordinator",
    help="Run experiments across sites.",
    no_args_is_help=True,
    rich_markup_mode=None,
    callback=needs_flower,
)
CoordinatorFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's folder.")]


def opened(folder: Path) -> Coordinator:
    """The coordinator whose folder this is."""
    from fedkf.flower.coordinator import Coordinator

    return Coordinator(folder)


@commands.command("init")
def init(
    folder: CoordinatorFolder,
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address by which sites reach it; repeatable.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Make a coordinator's folder with its certificates and keys."""
    hosts = list(dict.fromkeys([*(host or []), "localhost", "127.0.0.1"]))
    opened(folder).create(hosts, port)
    show(f"made {folder}; give {folder / 'ca.crt'} to every site")


@commands.command("key")
def key(folder: CoordinatorFolder) -> None:
    """Make new keys to sign and open messages with, in the place of those that are there."""
    opened(folder).renew_keys()
    certificate = folder / "ca.crt"
    show(f"made; give {certificate} to every site, which takes it with fedkf site trust DIR ca.crt")


@commands.command("start")
def start(
    folder: CoordinatorFolder,
    bind: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",
) -> None:
    """Open the port for sites, until stopped (Flower's SuperLink)."""
    opened(folder).start(bind)


@commands.command("add")
def add(
    folder: CoordinatorFolder,
    name: Annotated[str, typer.Argument(help="Of the site.")],
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The site's node.pub.")],
) -> None:
    """Register a site by its public key."""
    opened(folder).add(name, key)
    show(f"{name} is registered")


@commands.command("remove")
def remove(folder: CoordinatorFolder, name: str) -> None:
    """Shut a site out."""
    opened(folder).remove(name)
    show(f"{name} is not registered any more")


@commands.command("sites")
def sites(
    folder: CoordinatorFolder,
    as_json: ObjectOption = False,
) -> None:
    """Who is registered, and who is connected."""
    statuses = opened(folder).statuses()
    if as_json:
        typer.echo(json.dumps(statuses))
        return
    rows = table("", "site", "status", texts=("status",))
    for name, status in statuses.items():
        rows.add_row(name, status)
    out.print(rows)


@commands.command("run")
def run(
    folder: CoordinatorFolder,
    config: NeededConfigArgument,
    set_: SetOption = None,
    out_: RunFolderOption = None,
    resume: ResumeOption = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for sites to connect.")] = 300.0,
    quiet: QuietOption = False,
    as_json: SummaryOption = False,
) -> None:
    """Run one experiment across the sites."""
    from fedkf.flower.settings import refuse_rehearsal
    from fedkf.runs.store import RunFolder

    settings, name = resolve(config, set_)
    if settings.data.class_names is None:
        raise UserError("data.class_names is missing: in a deployment the configuration names them")
    refuse_rehearsal(settings)
    target = RunFolder(out_ or run_folder(settings, name))
    if target.begun() and not resume:
        raise UserError(f"{target.path} already holds a run; --resume goes on with it")
    follow(opened(folder).submit(settings, target.path, resume, wait), settings, quiet)
    summary = target.read_json("summary.json")
    if as_json:
        typer.echo(json.dumps(summary))
        return
    out.print(results_table({summary["algorithm"]: summary}))
    if (sites := sites_table(target)) is not None:
        out.print(sites)
    show(f"files: {target.path}")


def follow(job: Job, settings: Config, quiet: bool) -> None:
    """Show a run's progress; Ctrl-C stops the run, which stays resumable."""
    from fedkf.cli.progress import make_progress

    progress = make_progress(settings.federation.rounds, settings.algorithm.name, quiet, err)
    with interruptible("stopped; nothing that was finished is lost, add --resume to go on"):
        try:
            with progress:
                job.follow(progress.say, progress.round_finished)
        except KeyboardInterrupt:
            job.withdraw()
            raise
