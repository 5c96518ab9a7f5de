"""The handshake: who is connected, what they are invited to, and what they say of their data."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedkf.core.errors import FedkfError, printable
from fedkf.core.uploads import MOST_SAMPLES
from fedkf.data.federated import FederatedData
from fedkf.data.source import Source
from fedkf.flower.carrier import MARGIN, Grid
from fedkf.flower.messages import packed, was_lost
from fedkf.flower.settings import SiteRefusal
from fedkf.runs.schema import Config
from fedkf.runs.setup import settle


@dataclass(frozen=True)
class Invitation:
    """An experiment, as every message to a client names it: what travels of its configuration,
    and the id under which the client keeps its private state."""

    config: Mapping[str, Any]
    experiment: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{8,64}", self.experiment):  # it becomes a folder's name
            raise SiteRefusal("the experiment has no proper id")

    def head(self) -> dict[str, Any]:
        """What the head of a message says of it."""
        return {"config": json.dumps(self.config), "experiment": self.experiment}

    @classmethod
    def read(cls, message: Message) -> Invitation:
        head = message.content.config_records["call"]
        return cls(json.loads(str(head["config"])), str(head["experiment"]))


@dataclass(frozen=True)
class Introduction:
    """What a client says of its data; `partition` is its node's, where nodes have one."""

    train: int
    test: int
    shape: tuple[int, ...]
    partition: int | None = None

    @classmethod
    def of(cls, data: FederatedData, partition: int | None = None) -> Introduction:
        """Of a client whose data this is, all of it."""
        return cls(data.sizes[0], data.test_sizes[0], data.shape, partition)

    def reply(self, message: Message) -> Message:
        """On the client's side: the answer to an invitation."""
        about = {"train": self.train, "test": self.test, "shape": list(self.shape)}
        partition = {} if self.partition is None else {"partition": self.partition}
        return answer(message, {**about, **partition})

    @classmethod
    def read(cls, message: Message) -> Introduction | str:
        """What an answer says, or why its client does not take part; it may hold anything."""
        if message.has_error():
            return "its program failed; its own log says more"
        try:
            about: Any = message.content.config_records["reply"]
            if "error" in about:
                return printable(about["error"])
            train, test, shape = about["train"], about["test"], tuple(about["shape"])
            partition = about.get("partition")
            numbers = (train, test, *shape, *([] if partition is None else [partition]))
            whole = all(type(n) is int for n in numbers)
            sized = 0 < train < MOST_SAMPLES and 0 <= test < MOST_SAMPLES
            if whole and sized and len(shape) <= 4 and min(shape) > 0 and math.prod(shape) < 2**28:
                return cls(train, test, shape, partition)
        except Exception:  # it may hold anything
            pass
        return "its answer cannot be used"


@dataclass(frozen=True)
class Members:
    """The clients that take part in a run, as far as the server knows them."""

    names: list[str]
    sizes: dict[int, int]
    test_sizes: list[int]
    shape: tuple[int, ...]
    class_names: list[str]

    @classmethod
    def of(cls, found: Mapping[str, Introduction], config: Config) -> Self:
        """Those that introduced themselves, by name; their samples have one shape."""
        answers = list(found.values())
        return cls(
            list(found),
            {k: answer.train for k, answer in enumerate(answers)},
            [answer.test for answer in answers],
            answers[0].shape if answers else (),
            list(config.data.class_names or []),
        )

    def settled(self, config: Config) -> Config:
        """The configuration with everything spelled out that depends on who takes part."""
        nobody = np.zeros(0, dtype=np.int64)
        inputs = np.zeros((0, *self.shape), dtype=np.float32)
        source = Source(inputs, nobody, self.class_names, nobody, self.names, config.data.task)
        data = config.data.model_copy(update={"partition": None})
        return settle(config.model_copy(update={"data": data}), source)


def answer(message: Message, about: Mapping[str, Any], payload: bytes | None = None) -> Message:
    """On the client's side: an answer to an invitation, or the reason why not as its "error"."""
    content = RecordDict({"reply": ConfigRecord(dict(about))})
    if payload is not None:
        content["payload"] = packed(payload)
    return Message(content, reply_to=message)


def connected(
    grid: Grid,
    need: int,
    wait: float,
    pause: float = 0.5,
    check: Callable[[], None] = lambda: None,
) -> list[int]:
    """The nodes that are there, once they are as many as needed and no more are joining."""
    deadline = time.monotonic() + wait
    before: set[int] = set()
    while (online := set(grid.get_node_ids())) != before or len(online) < need:
        if time.monotonic() > deadline:
            raise FedkfError(f"{len(online)} nodes are connected, and {need} are needed")
        check()
        before = online
        time.sleep(pause)
    return sorted(online)


def introductions(
    grid: Grid, nodes: Sequence[int], invitation: Invitation, wait: float, again: bool = True
) -> Iterator[tuple[int, Introduction | str]]:
    """Invite each node as soon as it is connected; the answers as they come, or reasons why not."""
    for node, reply in answers(grid, nodes, invitation.head(), wait, again):
        yield node, Introduction.read(reply)


def answers(
    grid: Grid, nodes: Sequence[int], head: Mapping[str, Any], wait: float, again: bool = True
) -> Iterator[tuple[int, Message]]:
    """Ask each node as soon as it is connected; the answers as they come.

    It ends when all have answered or `wait` seconds have passed. A node that is lost meanwhile is
    asked `again` when it is back, or waited for no longer.
    """
    deadline = time.monotonic() + wait
    silent, asked = set(nodes), dict[str, int]()
    while silent and time.monotonic() < deadline:
        online = set(grid.get_node_ids())
        new = [n for n in nodes if n in silent and n in online and n not in asked.values()]
        messages = [
            Message(
                RecordDict({"call": ConfigRecord(dict(head))}),
                node,
                MessageType.QUERY,
                ttl=wait + MARGIN,
            )
            for node in new
        ]
        ids = grid.push_messages(messages) if messages else []
        asked.update((id, node) for id, node in zip(ids, new, strict=False) if id)
        for reply in grid.pull_messages(list(asked)) if asked else []:
            node = asked.pop(reply.metadata.reply_to_message_id, None)
            if node is None or (again and was_lost(reply)):
                continue
            silent.discard(node)
            yield node, reply
        if not again:
            silent &= online | set(asked.values())
        if silent:
            time.sleep(0.5)
