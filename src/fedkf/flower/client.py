"""The site's side of the Flower app, and the program that runs it in the place of Flower's.

Flower sends the coordinator's app code to every site and runs it there. A site started with
`fedkf site start` does not: the code that came is neither installed nor imported, and the package
that the site itself installed answers.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkf.core.client import StepFailed
from fedkf.core.errors import FedkfError
from fedkf.flower import handshake, internals, programs
from fedkf.flower.messages import make_reply, read_call, read_payload
from fedkf.flower.settings import SiteRefusal
from fedkf.flower.site import VARIABLE, Host, SiteFolder

client = ClientApp()


@client.query()
def greet(message: Message, context: Context) -> Message:
    """Before a run: whether this site takes part, and the sizes and shape of its data."""
    try:
        return host(message).introduction().reply(message)
    except Exception as error:
        return handshake.answer(message, {"error": reason(error)})


@client.train()
def step(message: Message, context: Context) -> Message:
    """One step of an algorithm on this site's data."""
    call, head = read_call(message)
    try:
        here = host(message)
        here.check(call)
        reply = here.perform(call, read_payload(message), list(head["keep"]))
        assert reply.upload is not None
        header = {"wrote_state": reply.wrote_state}
        return make_reply(message, call, header, reply.upload.to_bytes())
    except Exception as error:
        return make_reply(message, call, {"error": reason(error)}, b"")


client.evaluate()(step)


def host(message: Message) -> Host:
    folder = os.environ.get(VARIABLE)
    if folder is None:
        raise SiteRefusal("it was not started with fedkf site start")
    return Host(SiteFolder(Path(folder)), handshake.Invitation.read(message))


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
    programs.end_with_parent()
    internals.run_client(client)
