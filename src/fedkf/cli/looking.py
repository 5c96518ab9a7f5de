"""Commands that show runs: report, figure and dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedkf.cli.app import Stopped, err, out
from fedkf.core.errors import FedkfError, UserError, nearest
from fedkf.report.runs import Run, read_runs

if TYPE_CHECKING:
    from fedkf.report.samples import Samples

SAMPLED = 4
"""Runs whose models are sampled: each takes some seconds."""


def write_report(
    folders: Sequence[Path], file: Path | None, samples: bool | None, quiet: bool = False
) -> Path:
    """Write the report; its path. `samples`: None means of models that ship with fedkf only."""
    from fedkf.report.page import build

    runs = with_rounds(folders)
    path = file or default_place(folders)
    if path.is_dir():
        raise UserError(f"--out {path} is a folder; name a file, such as {path / 'report.html'}")
    for run in runs:
        for note in run.notes:
            err.print(f"note: {run.label}: {note}", soft_wrap=True)
    made = None if samples is False else sample(runs, samples is True, quiet)
    save(path, build(runs, made).encode())
    return path


def with_rounds(folders: Sequence[Path]) -> list[Run]:
    """The runs that a user names; one with a finished round at least."""
    runs = read_runs(folders)
    if not any(run.rounds for run in runs):
        names = ", ".join(str(folder) for folder in folders)
        why = "; ".join(note for run in runs for note in run.notes)
        raise UserError(
            f"no run in {names} has a finished round yet" + (f" ({why})" if why else "")
        )
    return runs


def default_place(folders: Sequence[Path]) -> Path:
    """Inside the folder given; several runs are compared in the folder that holds them all."""
    if len(folders) == 1:
        return folders[0] / "report.html"
    parents = {folder.resolve().parent for folder in folders}
    return (parents.pop() if len(parents) == 1 else Path.cwd()) / "report.html"


def sample(runs: Sequence[Run], own_code: bool, quiet: bool) -> dict[str, Samples | str]:
    from fedkf.report import samples

    made: dict[str, Samples | str] = {}
    for run in [r for r in runs if r.summary][:SAMPLED]:
        if run.alone:
            made[run.label] = "every site has a model of its own, and there is no shared one"
            continue
        if not quiet and samples.cached(run.path) is None:
            err.print(f"sampling the model of {run.label} (once, some seconds)", soft_wrap=True)
        try:
            made[run.label] = samples.make(run.path, own_code)
        except samples.NoSamples as reason:
            made[run.label] = str(reason)
    return made


def save(path: Path, content: bytes) -> None:
    from fedkf.core.payload import write_atomically

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise FedkfError(f"cannot write {path}: {error.strerror}") from None


def show_figure(
    kind: str, folders: Sequence[Path], formats: Sequence[str], file: Path | None
) -> None:
    from fedkf.charts.matplotlib_backend import FORMATS, draw
    from fedkf.report.figures import KINDS, figure

    if kind not in KINDS:
        raise UserError(f"no figure {kind!r}; {nearest(kind, KINDS)}")
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"--format {name}: {nearest(name, FORMATS)}")
    base = file or Path(kind)
    runs = with_rounds(folders)
    for ending in formats:
        path = base if base.suffix == f".{ending}" else Path(f"{base}.{ending}")
        try:
            draw(figure(kind, runs), path)
        except OSError as error:
            raise FedkfError(f"cannot write {path}: {error.strerror}") from None
        out.print(f"figure: {path}", soft_wrap=True)


def serve(folder: Path, host: str, port: int) -> None:
    """Serve the dashboard until Ctrl-C."""
    import ipaddress
    import secrets
    import socket

    if not folder.is_dir():
        raise UserError(f"no folder {folder}")
    name = "127.0.0.1" if host == "localhost" else host
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        raise UserError(
            f"--host {host}: give an IP address, such as 127.0.0.1 or 0.0.0.0"
        ) from None
    token = None if address.is_loopback else secrets.token_urlsafe(24)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        listener = socket.create_server((name, port), family=family)
    except OverflowError:
        raise UserError(f"--port {port} is not a port") from None
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}, port {port}: {error.strerror}; "
            "another --port may be free, and 0 finds one"
        ) from None

    import uvicorn

    from fedkf.report.dashboard import create

    shown = f"[{name}]" if address.version == 6 else name
    query = f"?token={token}" if token else ""
    out.print(f"dashboard: http://{shown}:{listener.getsockname()[1]}/{query}", soft_wrap=True)
    if token:
        err.print("whoever has this address can read the runs; it is not encrypted", soft_wrap=True)
    settings = uvicorn.Config(
        create(folder, token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
    raise Stopped("the dashboard is closed; runs go on without it")


def show_report(folders: Sequence[Path], file: Path | None, samples: bool | None) -> None:
    path = write_report(folders, file, samples)
    out.print(f"report: {path}", soft_wrap=True)
