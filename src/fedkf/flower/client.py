"""The site's side of the Flower app, and the program that runs it in the place of Flower's.

Flower sends the coordinator's app code to every site and runs it there. A site started with
`fedkf site start` does not: the code that came is neither installed nor imported, and the package
that the site itself installed answers, if its coordinator signed the message.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkf.core.client import StepFailed
from fedkf.core.digests import digest
from fedkf.core.errors import FedkfError, printable
from fedkf.data.scaling import KIND as INPUT_STATISTICS
from fedkf.flower import handshake, internals, programs
from fedkf.flower.answers import MOST, ROOM, plain, sealed
from fedkf.flower.logs import REFUSED, SENT, RefusedLog, SentLog
from fedkf.flower.messages import make_reply, read_call, read_payload
from fedkf.flower.orders import OrderRefusal, signed_content
from fedkf.flower.settings import SiteRefusal
from fedkf.flower.site import VARIABLE, Host, SiteFolder

client = ClientApp()
Answer = tuple[Message, Mapping[str, int]]
"""A reply, and the bytes of each kind that it holds."""


@client.query()
def greet(message: Message, context: Context) -> Message:
    """Before a run: whether this site takes part, with the sizes and shape of its data; then, if
    it is asked for them, the statistics from which a scale is agreed."""

    def introduce(folder: SiteFolder) -> Answer:
        host = Host(folder, handshake.Invitation.read(message))
        if message.content.config_records["call"].get("step") == INPUT_STATISTICS:
            sent = host.statistics()
            return handshake.answer(message, {}, sent.to_bytes()), sent.nbytes()
        host.agree()
        about = host.introduction()
        return about.reply(message), {"sizes": 16, "shape": 8 * len(about.shape)}

    return obey(message, context, introduce)


@client.train()
def step(message: Message, context: Context) -> Message:
    """One step of an algorithm on this site's data."""

    def perform(folder: SiteFolder) -> Answer:
        call, head = read_call(message)
        host = Host(folder, handshake.Invitation.read(message))
        host.check(call)
        host.settle_client(call.client)
        reply = host.perform(call, read_payload(message), list(head["keep"]))
        assert reply.upload is not None
        header = {"wrote_state": reply.wrote_state}
        made = make_reply(message, call, header, reply.upload.to_bytes())
        return made, reply.upload.nbytes()

    return obey(message, context, perform)


client.evaluate()(step)


def obey(message: Message, context: Context, work: Callable[[SiteFolder], Answer]) -> Message:
    """Do what the coordinator ordered, and nothing that anybody else asks for.

    Whatever is answered, the reason of a refusal as well, is for the coordinator alone. What is
    raised is seen by Flower, and so by others.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        raise SiteRefusal("it was not started with fedkf site start")
    try:
        return answered(SiteFolder(Path(path)), message, context, work)
    except Exception as error:
        raise SiteRefusal(reason(error)) from None


def answered(
    folder: SiteFolder, message: Message, context: Context, work: Callable[[SiteFolder], Answer]
) -> Message:
    order = digest_of(message)
    folder.evidence().begin()
    try:
        folder.guard(context.node_id).check(message)
    except Exception as error:
        refuse(folder, message, error)
        reply = handshake.answer(message, {"error": f"it refuses the message: {reason(error)}"})
        return seal(folder, message, order, reply)
    try:
        reply, kinds = work(folder)
    except Exception as error:
        text = reason(error)
        reply, kinds = handshake.answer(message, {"error": text}), {"error": len(text)}
    content = plain(reply)
    if len(content) > MOST - ROOM:
        text = f"its answer of {len(content) / 1e9:.1f} GB is too large to be sealed"
        reply, kinds = handshake.answer(message, {"error": text}), {"error": len(text)}
        content = plain(reply)
    about = {"kinds": dict(kinds), "bytes": len(content), "digest": digest(content)}
    entry = {**described(message), **about}
    SentLog(folder / SENT).append(entry, folder.key(), folder.accounts().told)
    return seal(folder, message, order, reply)


def seal(folder: SiteFolder, message: Message, order: str, reply: Message) -> Message:
    """The reply as it leaves."""
    content = sealed(reply, order, folder.key(), folder.trusted().sealing)
    return Message(content, reply_to=message)


def refuse(folder: SiteFolder, message: Message, error: Exception) -> None:
    about = {**described(message), "run": str(message.metadata.run_id)}
    text = str(error) if isinstance(error, OrderRefusal) else type(error).__name__
    RefusedLog(folder / REFUSED).append(text, about)


def described(message: Message) -> dict[str, Any]:
    """What a message says it is, as far as that can be read; a stranger may have written it."""
    head: Any = message.content.config_records.get("call") or {}
    kind = message.metadata.message_type
    known = {key: head[key] for key in ("experiment", "round", "step", "client") if key in head}
    return {"type": printable(kind, 40), **{k: printable(v, 64) for k, v in known.items()}}


def digest_of(message: Message) -> str:
    """Of the order that a message is or pretends to be."""
    try:
        return digest(signed_content(message))
    except Exception:  # it may hold anything
        return digest(b"")


def reason(error: Exception) -> str:
    """What the coordinator is told. Messages may hold paths, so only our own sentences leave."""
    if not isinstance(error, OrderRefusal):  # of those a stranger may send any number
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
