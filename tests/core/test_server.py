"""The server: uploads that cannot be used are left out, whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from fedkf.core.client import Call, Reply
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.server import Server
from fedkf.core.task import Task, Training
from fedkf.core.versions import Elsewhere

Change = Callable[[Payload], Payload]


def down() -> Payload:
    weights = {"w": torch.zeros(3)}
    return Payload(weights=weights).add("control", weights, "weights")


class Wire:
    """An engine whose clients send back what came, and whose client 1 changes it first."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def exchange(self, calls: Sequence[Call], down: Payload) -> Iterator[Reply]:
        for call in calls:
            upload = Payload.from_bytes(down.to_bytes())
            yield Reply(call, self.change(upload) if call.client == 1 else upload)

    def evaluate(self, readouts: object, clients: object) -> None: ...

    def close(self) -> None: ...


def server(change: Change) -> Server:
    streams = Streams(0)
    task = Task(lambda: torch.nn.Linear(1, 1), (1,), 1, Training(), streams)
    sizes = {0: 5, 1: 5, 2: 5}
    made = Server(
        task,
        sizes,
        streams,
        Wire(change),
        Elsewhere(),
        Ledger(),
        lambda name, counts: Memory({}, counts),
    )
    made.begin(1, sorted(sizes))
    return made


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda up: up.add("steps", {"count": 10**400}, "sizes"), "OverflowError"),
        (lambda up: up.replace(weights={"w": torch.ones(4)}), "'w' has shape [4], not [3]"),
    ],
)
def test_an_upload_that_does_not_fit_is_left_out(change: Change, reason: str) -> None:
    served = server(change)
    uploads = served.exchange("local_update", [0, 1, 2], down())
    assert [upload.client for upload in uploads] == [0, 2]
    assert [refusal.client for refusal in served.refused] == [1]
    assert reason in served.refused[0].reason
