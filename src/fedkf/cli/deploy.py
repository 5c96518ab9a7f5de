"""`fedkf coordinator` and `fedkf site`: the ceremony of a deployment in a few commands."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.app import SetOption, Stopped, err, out
from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed

coordinator = typer.Typer(help="Run experiments across sites.", no_args_is_help=True)
site = typer.Typer(help="Take part with data that stays here.", no_args_is_help=True)

CoordinatorFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's folder.")]
SiteFolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The site's folder.")]


@coordinator.callback()
@site.callback()
def needs_flower() -> None:
    """Flower carries the messages."""
    check_installed("flower", "a deployment needs Flower", "flwr")


# -- the coordinator -------------------------------------------------------------------------------


def opened(folder: Path) -> Any:
    from fedkf.flower.coordinator import Coordinator

    return Coordinator(folder)


@coordinator.command("init")
def coordinator_init(
    folder: CoordinatorFolder,
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address by which sites reach it; repeatable.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Make a coordinator's folder with its certificates."""
    hosts = list(dict.fromkeys([*(host or []), "localhost", "127.0.0.1"]))
    opened(folder).create(hosts, port)
    out.print(f"made {folder}; give {folder / 'ca.crt'} to every site", soft_wrap=True)


@coordinator.command("start")
def coordinator_start(
    folder: CoordinatorFolder,
    bind: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",
) -> None:
    """Open the port for sites, until stopped (Flower's SuperLink)."""
    opened(folder).start(bind)


@coordinator.command("add")
def coordinator_add(
    folder: CoordinatorFolder,
    name: Annotated[str, typer.Argument(help="Of the site.")],
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The site's node.pub.")],
) -> None:
    """Register a site by its public key."""
    opened(folder).add(name, key)
    out.print(f"{name} is registered", soft_wrap=True)


@coordinator.command("remove")
def coordinator_remove(folder: CoordinatorFolder, name: str) -> None:
    """Shut a site out."""
    opened(folder).remove(name)
    out.print(f"{name} is not registered any more", soft_wrap=True)


@coordinator.command("sites")
def coordinator_sites(
    folder: CoordinatorFolder,
    as_json: Annotated[bool, typer.Option("--json", help="As one object.")] = False,
) -> None:
    """Who is registered, and who is connected."""
    statuses = opened(folder).statuses()
    if as_json:
        typer.echo(json.dumps(statuses))
        return
    from fedkf.cli.tables import table

    rows = table("", "site", "status")
    for name, status in statuses.items():
        rows.add_row(name, status)
    out.print(rows)


@coordinator.command("run")
def coordinator_run(
    folder: CoordinatorFolder,
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A file or a preset.")],
    set_: SetOption = None,
    out_: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="[default: runs/<config>-<algorithm>-<seed>]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for sites to connect.")] = 300.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json only.")] = False,
) -> None:
    """Run one experiment across the sites."""
    from fedkf.runs import config as configuration
    from fedkf.runs.store import RunFolder

    content, name = configuration.read(config)
    settings = configuration.resolve(content, configuration.parse_set(set_ or []))
    if settings.data.class_names is None:
        raise UserError("data.class_names is missing: in a deployment the configuration names them")
    algorithm = settings.algorithm.name.replace(":", ".")
    default = f"runs/{name}-{algorithm}-{settings.federation.seed}"
    target = RunFolder(out_ or Path(settings.output.dir or default))
    if target.begun() and not resume:
        raise UserError(f"{target.path} already holds a run; --resume goes on with it")
    follow(opened(folder).submit(settings, target.path, resume, wait), settings, quiet)
    summary = target.read_json("summary.json")
    if as_json:
        typer.echo(json.dumps(summary))
        return
    from fedkf.cli.tables import results_table

    out.print(results_table({summary["algorithm"]: summary}))
    out.print(f"files: {target.path}", soft_wrap=True)


def follow(job: Any, settings: Any, quiet: bool) -> None:
    """Show a run's progress; Ctrl-C stops the run, which stays resumable."""
    from fedkf.cli.running import make_progress, stop

    progress = make_progress(settings.federation.rounds, settings.algorithm.name, quiet, err)
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        with progress:
            job.follow(progress.say, progress.round_finished)
    except KeyboardInterrupt:
        job.withdraw()
        raise Stopped("stopped; nothing that was finished is lost, add --resume to go on") from None
    finally:
        signal.signal(signal.SIGTERM, previous)


# -- a site ----------------------------------------------------------------------------------------


@site.command("init")
def site_init(
    folder: SiteFolderArgument,
    name: Annotated[str, typer.Option(help="Of the site; the coordinator registers it.")],
    address: Annotated[str, typer.Option("--coordinator", metavar="HOST:PORT")],
    certificate: Annotated[Path, typer.Option(help="The coordinator's ca.crt.")],
) -> None:
    """Make a site's folder with its key and its file."""
    from fedkf.flower.site import FILE, SiteFolder

    SiteFolder(folder).create(name, address, certificate)
    out.print(
        f"made {folder}; say in {folder / FILE} where the data is, and give "
        f"{folder / 'node.pub'} to the coordinator",
        soft_wrap=True,
    )


@site.command("check")
def site_check(
    folder: SiteFolderArgument,
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A file or a preset.")],
    set_: SetOption = None,
) -> None:
    """Whether this site would take part in an experiment, and what it would send."""
    from fedkf.flower.settings import outgoing
    from fedkf.flower.site import Host, SiteFolder
    from fedkf.runs import config as configuration

    content, _ = configuration.read(config)
    settings = configuration.resolve(content, configuration.parse_set(set_ or []))
    host = Host(SiteFolder(folder), outgoing(settings), "0" * 8)
    about = host.introduction()
    kinds = ["weights", *host.algorithm.discloses, "counts of correct and of tested samples"]
    if "losses" in host.site.share:
        kinds.append("training losses")
    out.print(
        f"{host.site.name} would take part: {about.train} training and {about.test} test "
        f"samples of shape {list(about.shape)}; it would send these two numbers, this shape, "
        f"{', '.join(kinds)}",
        soft_wrap=True,
    )


@site.command("start")
def site_start(folder: SiteFolderArgument) -> None:
    """Connect to the coordinator, until stopped (Flower's SuperNode)."""
    from fedkf.flower.site import SiteFolder

    SiteFolder(folder).start()
