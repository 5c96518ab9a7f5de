"""The site's side of the Flower app, and the program that runs it in the place of Flower's.

Flower sends the coordinator's app code to every site and runs it there. A site started with
`fedkf site start` does not: the code that came is neither installed nor imported, and the package
that the site itself installed answers.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedkf.core.client import StepFailed
from fedkf.core.errors import FedkfError
from fedkf.deployment import programs
from fedkf.deployment.site import VARIABLE, Host, SiteFolder, SiteRefusal
from fedkf.engines.flower import make_reply, read_call

client = ClientApp()


@client.query()
def greet(message: Message, context: Context) -> Message:
    """Before a run: whether this site takes part, and the sizes and shape of its data."""
    try:
        answer = host(message.content.config_records["call"]).hello()
    except Exception as error:
        answer = {"error": reason(error)}
    return Message(RecordDict({"reply": ConfigRecord(answer)}), reply_to=message)


@client.train()
def step(message: Message, context: Context) -> Message:
    """One step of an algorithm on this site's data."""
    call, down, head = read_call(message)
    try:
        reply = host(head).perform(call, down, list(head["keep"]))
        assert reply.upload is not None
        header: dict[str, Any] = {"wrote_state": reply.wrote_state}
        return make_reply(message, call, header, reply.upload.to_bytes())
    except Exception as error:
        return make_reply(message, call, {"error": reason(error)}, b"")


client.evaluate()(step)


def host(head: Mapping[str, Any]) -> Host:
    folder = os.environ.get(VARIABLE)
    if folder is None:
        raise SiteRefusal("it was not started with fedkf site start")
    return Host(SiteFolder(Path(folder)), json.loads(head["config"]), str(head["experiment"]))


def reason(error: Exception) -> str:
    """What the coordinator is told. Messages may hold paths, so only our own sentences leave."""
    traceback.print_exc(file=sys.stderr)
    if isinstance(error, SiteRefusal):
        return str(error)
    cause = error.__cause__ if isinstance(error, StepFailed) else error
    kind = type(cause if cause is not None else error).__name__
    if isinstance(error, FedkfError):
        kind = "a mistake that its own log explains"
    return f"it failed with {kind}; its own log says more"


def main() -> None:
    """Run this site's client for one message, whatever app came with it."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    programs.replace(
        "flwr.supernode.runtime.run_clientapp",
        install_from_fab=lambda *args, **options: None,
        get_load_client_app_fn=lambda *args, **options: lambda *app: client,
    )
    programs.end_with_parent()
    flwr_clientapp()
