"""The engine on Flower: payloads travel as messages of its grid, in a simulation or over a network.

Messages are pushed and pulled, the two halves of the grid's `send_and_receive`, so that every reply
counts and shows as it comes. Nothing of Flower's is used but the carrying: a reply is matched with
the message that it answers, and what it holds is read with care.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from fedkf.core.client import Call, Reply
from fedkf.core.errors import FedkfError, UserError, printable
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import MOST_SAMPLES

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Message

INSTALL = "pip install 'fedkf[flower]'"
LOST = {3, 4, 5}
"""Flower's error codes that say that a message or its reply was lost on the way."""
MARGIN = 900.0
"""Seconds that a message outlives its exchange, as clocks differ."""


class Grid(Protocol):
    """What is used of Flower's grid."""

    def get_node_ids(self) -> Iterable[int]: ...
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]: ...
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]: ...


class FlowerEngine:
    """Sends calls to the nodes that hold the clients.

    `nodes` says, now, which node serves which client; a client without one is not connected. A
    training exchange goes on without clients that are lost while `need` others answer; else it
    waits for them to come back until `timeout` has passed since it began.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[int, int]],
        *,
        timeout: float | None = None,
        need: int = 1,
        more: Callable[[Call], Mapping[str, Any]] = lambda call: {},
        check: Callable[[], None] = lambda: None,
        stops: bool = False,
        largest: int = 1 << 28,
        pause: float = 0.1,
    ) -> None:
        self.grid, self.nodes, self.timeout, self.need = grid, nodes, timeout, need
        self.more, self.check, self.stops = more, check, stops
        self.largest, self.pause = largest, pause

    def exchange(self, calls: Sequence[Call], down: Payload) -> Iterator[Reply]:
        training = any(call.step != "evaluate" for call in calls)
        need = min(self.need, len(calls)) if training else 0
        record = packed(down.to_bytes())
        largest = max(self.largest, 8 * sum(down.nbytes().values()))
        began, answered = time.monotonic(), 0
        open_ = list(calls)
        why: dict[int, str] = {}
        while open_:
            online = self.nodes()
            ready = [call for call in open_ if call.client in online]
            sent = self._send(ready, record, online, began)
            accepted = {call.client for call in sent.values()}
            absent = [call for call in open_ if call.client not in accepted]
            why.update({call.client: "it is not connected" for call in absent})
            for call, message in self._collect(sent, began):
                if message is None:
                    seconds = f"{self.timeout:g} s" if self.timeout is not None else "its time"
                    yield Reply(call, error=f"no answer within {seconds}")
                elif message.has_error() and message.error.code in LOST:
                    why[call.client] = "the connection to it was lost"
                    absent.append(call)
                else:
                    reply = self._read(call, message, largest)
                    yield reply
                    answered += reply.upload is not None and reply.usable
            open_ = absent
            if answered >= need or self._time_is_up(began):
                break
            self._wait_for({call.client for call in open_}, began)
        for call in open_:
            yield Reply(call, error=why[call.client])

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> None:
        """Only clients can: each counts its own."""
        return None

    def close(self) -> None: ...

    # -- sending and receiving ------------------------------------------------------------------

    def _send(
        self, calls: Sequence[Call], record: ArrayRecord, online: Mapping[int, int], began: float
    ) -> dict[str, Call]:
        """The calls that the grid accepted, by message; a node that comes back late skips them."""
        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        ttl = None
        if self.timeout is not None:
            ttl = max(0.0, began + self.timeout - time.monotonic()) + MARGIN
        messages = []
        for call in calls:
            fields = {k: "" if v is None else v for k, v in asdict(call).items()}
            head = ConfigRecord({**fields, **self.more(call)})
            kind = MessageType.EVALUATE if call.step == "evaluate" else MessageType.TRAIN
            content = RecordDict({"call": head, "payload": record})
            messages.append(Message(content, online[call.client], kind, ttl=ttl))
        ids = list(self.grid.push_messages(messages)) if messages else []
        return {id: call for id, call in zip(ids, calls, strict=False) if id}

    def _collect(
        self, sent: dict[str, Call], began: float
    ) -> Iterator[tuple[Call, Message | None]]:
        """Replies as they come, then a None for every call that nobody answered in time."""
        waiting = dict(sent)
        while waiting:
            for message in self.grid.pull_messages(list(waiting)):
                # Errors come from the SuperLink, so only this says which call they are about.
                call = waiting.pop(message.metadata.reply_to_message_id, None)
                if call is not None:
                    yield call, message
            if self._time_is_up(began):
                break
            if waiting:
                self.check()
                time.sleep(self.pause)
        for call in waiting.values():
            yield call, None

    def _read(self, call: Call, message: Message, largest: int) -> Reply:
        """What a reply holds; as it comes from another machine, it may hold anything."""
        if message.has_error():
            return Reply(call, error=printable(f"Flower reports: {message.error.reason}"))
        heads = message.content.config_records
        if self.stops and "reply" in heads and heads["reply"].get("stop"):
            kind = UserError if heads["reply"]["stop"] == "user" else FedkfError
            raise kind(str(heads["reply"]["error"]))
        try:
            head = heads["reply"]
            if head.get("error"):
                details = str(head.get("details", ""))
                return Reply(call, error=printable(head["error"]), details=details)
            if head["version"] != call.version or head["client"] != call.client:
                return Reply(call, error="it answered another message (a stale one)")
            wire = unpacked(message.content.array_records["payload"], largest)
            return Reply(call, Payload.from_bytes(wire), bool(head["wrote_state"]))
        except Exception as error:
            text = str(error) if isinstance(error, FedkfError) else repr(error)
            return Reply(call, error=printable(f"its answer cannot be used: {text}"))

    def _time_is_up(self, began: float) -> bool:
        return self.timeout is not None and time.monotonic() - began > self.timeout

    def _wait_for(self, clients: set[int], began: float) -> None:
        while not self._time_is_up(began):
            self.check()
            time.sleep(10 * self.pause)
            if clients & self.nodes().keys():
                break


# -- on the wire -----------------------------------------------------------------------------------


def packed(content: bytes) -> ArrayRecord:
    """Bytes as an array of Flower's, which it sends in pieces however many there are."""
    import numpy as np
    from flwr.app import ArrayRecord

    return ArrayRecord([np.frombuffer(content, dtype=np.uint8)])


def unpacked(record: ArrayRecord, largest: int = 1 << 40) -> bytes:
    """The bytes of a record, if it holds nothing else."""
    arrays = list(record.values())
    if len(arrays) != 1 or arrays[0].dtype != "uint8":
        raise ValueError("it holds other arrays than one payload")
    if len(arrays[0].data) > largest:
        size = len(arrays[0].data) / 1e6
        raise ValueError(f"it has {size:.1f} MB, and {largest / 1e6:.1f} MB are expected at most")
    return arrays[0].numpy().tobytes()


def read_call(message: Message) -> tuple[Call, Payload, Mapping[str, Any]]:
    """On the client's side: the call, what was sent with it, and what else its head says."""
    head: dict[str, Any] = dict(message.content.config_records["call"])
    fields = {name: head.pop(name) for name in ("step", "client", "round", "start", "version")}
    call = Call(**{**fields, "start": fields["start"] or None})
    return call, Payload.from_bytes(unpacked(message.content.array_records["payload"])), head


def greeting(message: Message) -> dict[str, Any]:
    """What a client says of its data: train, test and shape; or the error that it is."""
    if message.has_error():
        return {"error": "its program failed; its own log says more"}
    try:
        about: Any = message.content.config_records["reply"]
        if "error" in about:
            return {"error": printable(about["error"])}
        train, test, shape = about["train"], about.get("test", 0), tuple(about["shape"])
        whole = all(type(n) is int for n in (train, test, *shape))
        sized = 0 < train < MOST_SAMPLES and 0 <= test < MOST_SAMPLES
        if whole and sized and len(shape) <= 4 and min(shape) > 0 and math.prod(shape) < 2**28:
            return {"train": train, "test": test, "shape": shape}
    except Exception:  # it may hold anything
        pass
    return {"error": "its answer cannot be used"}


def make_reply(message: Message, call: Call, header: Mapping[str, Any], payload: bytes) -> Message:
    """On the client's side: the answer to a call."""
    from flwr.app import ConfigRecord, Message, RecordDict

    head = ConfigRecord({"version": call.version, "client": call.client, **header})
    return Message(RecordDict({"reply": head, "payload": packed(payload)}), reply_to=message)
