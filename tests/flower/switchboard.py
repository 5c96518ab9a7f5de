"""A grid within this process: nodes are functions that answer messages, or do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

Node = Callable[[Message], Message | None]


class Switchboard:
    """What Flower's grids offer, for messages that never leave the process."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        # Who a process of Flower's is; messages are signed with it.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.sent: list[Message] = []
        self._numbers = itertools.count(1)
        self._replies: dict[str, Message] = {}

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            if message.metadata.dst_node_id not in self.nodes:  # as of a node that was removed
                ids.append("")
                continue
            id = str(next(self._numbers))
            message.metadata.__dict__["_message_id"] = id
            self.sent.append(message)
            reply = self.nodes[message.metadata.dst_node_id](message)
            if reply is not None:
                self._replies[id] = reply
            ids.append(id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(id) for id in message_ids if id in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def node_of(app: ClientApp, partition: int, partitions: int) -> Node:
    """A node that serves a partition with a real ClientApp."""
    config: Any = {"partition-id": partition, "num-partitions": partitions}
    context = Context(1, 7, config, RecordDict(), {})
    return lambda message: app(message, context)
