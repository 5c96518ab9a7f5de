"""The engine on Flower: payloads travel as messages of its grid, in a simulation or over a network.

Messages are pushed and pulled, the two halves of the grid's `send_and_receive`, so that every reply
counts and shows as it comes. Nothing of Flower's is used but the carrying: a reply is matched with
the message that it answers, and what it holds is read with care.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from flwr.app import ArrayRecord, Message

from fedkf.core.client import Call, Reply
from fedkf.core.details import tell
from fedkf.core.errors import FedkfError, UserError, printable
from fedkf.core.payload import Payload, Weights
from fedkf.core.personal import EVALUATIONS
from fedkf.core.server import Accept
from fedkf.core.versions import RemoteVersions
from fedkf.flower.messages import make_call, packed, read_payload, was_lost

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
    waits for them to come back until `timeout` has passed since it began. `more` goes into the head
    of a call, and `pause` lies between two looks at the grid, in seconds.
    """

    stops = False
    """Whether a client's answer may stop the run, as where its process is one of our own."""
    largest = 1 << 28
    """Bytes that any answer may have; where more were sent down, eight times those."""

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[int, int]],
        *,
        timeout: float | None = None,
        need: int = 1,
        more: Callable[[Call], Mapping[str, Any]] = lambda call: {},
        pause: float = 0.1,
    ) -> None:
        self.grid, self.nodes, self.timeout, self.need = grid, nodes, timeout, need
        self.more, self.pause = more, pause

    def check(self) -> None:
        """Called while waiting; raises if there is nothing to wait for any more."""

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        training = any(call.step not in EVALUATIONS for call in calls)
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
                    accept(Reply(call, error=f"no answer within {seconds}"))
                elif was_lost(message):
                    why[call.client] = "the connection to it was lost"
                    absent.append(call)
                else:
                    answered += accept(self._read(call, message, largest))
            open_ = absent
            if not open_ or answered >= need or self._time_is_up(began):
                break
            self._wait_for({call.client for call in open_}, began)
        for call in open_:
            accept(Reply(call, error=why[call.client]))

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> None:
        """Only clients can: each counts its own."""
        return None

    def close(self) -> None: ...

    # -- sending and receiving ------------------------------------------------------------------

    def _send(
        self, calls: Sequence[Call], record: ArrayRecord, online: Mapping[int, int], began: float
    ) -> dict[str, Call]:
        """The calls that the grid accepted, by message; a node that comes back late skips them."""
        ttl = None
        if self.timeout is not None:
            ttl = max(0.0, began + self.timeout - time.monotonic()) + MARGIN
        messages = [
            make_call(call, record, online[call.client], self.more(call), ttl) for call in calls
        ]
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
            tell(f"client {call.client} ({call.step})", str(heads["reply"].get("details", "")))
            raise kind(str(heads["reply"]["error"]))
        try:
            head = heads["reply"]
            if head.get("error"):
                details = str(head.get("details", ""))
                return Reply(call, error=printable(head["error"]), details=details)
            if head["version"] != call.version or head["client"] != call.client:
                return Reply(call, error="it answered another message (a stale one)")
            return Reply(call, read_payload(message, largest), bool(head["wrote_state"]))
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


class RemoteEngine(FlowerEngine):
    """Clients on other machines: each call says what it belongs to (`head`) and which versions of
    their private state the clients, who have it on their own disks, must keep."""

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[int, int]],
        head: Mapping[str, Any],
        states: RemoteVersions,
        timeout: float,
        need: int,
    ) -> None:
        def more(call: Call) -> dict[str, Any]:
            return {**head, "keep": states.keep(call.client)}

        super().__init__(grid, nodes, timeout=timeout, need=need, more=more, pause=0.5)
