"""`fedkf dashboard`: a live page over the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkf.cli.consoles import say, show
from fedkf.cli.interruption import Stopped
from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed


def dashboard(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds runs.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 finds a free one.", min=0, max=65535)] = 8420,
) -> None:
    """A live page that follows the runs in a folder; it only reads."""
    from fedkf.report.address import listen

    if not folder.is_dir():
        raise UserError(f"no folder {folder}")
    check_installed("dashboard", "the dashboard needs a small server", "starlette", "uvicorn")
    address = listen(host, port)

    import uvicorn

    from fedkf.report.dashboard import create

    show(f"dashboard: {address.url}")
    if address.token:
        say("whoever has this address can read the runs; it is not encrypted")
    settings = uvicorn.Config(
        create(folder, address.token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    try:
        uvicorn.Server(settings).run(sockets=[address.listener])
    except KeyboardInterrupt:
        pass
    finally:
        address.listener.close()
    raise Stopped("the dashboard is closed; runs go on without it")
