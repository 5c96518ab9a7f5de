"""Somebody who is not the coordinator, with every interface of Flower's that can be reached."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import httpx
from flwr.app import Message
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import fab_to_proto, run_from_proto, user_config_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_object import get_object_type_from_object_content
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from fedkf.flower.coordinator import APP

SERVER_TASK = "flwr-serverapp"


class Bearer:
    """Sends a token with every request."""

    def __init__(self, token: str) -> None:
        self.token = token

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        context.request.headers["Authorization"] = f"Bearer {self.token}"
        return call_next(context)


class Stranger:
    """Knows an address and its certificate, and perhaps the secrets of Flower's own doors, but not
    the coordinator's key."""

    def __init__(self, address: str, certificate: bytes, token: str = "", secret: bytes = b""):
        self.address, self.certificate = address, certificate
        named: list[Any] = [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
        bearer = [Bearer(token)] if token else []
        self.control = ControlHttpClient.from_server_address(
            address, False, certificate, [*named, *bearer]
        )
        method = "/flwr.proto.Runtime/AcquireTask"
        signer: list[Any] = []
        if secret:
            signer = [
                SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=[method])
            ]
        self.runtime = RuntimeHttpClient.from_server_address(
            address, False, certificate, [*named, *signer]
        )

    def close(self) -> None:
        self.control.close()
        self.runtime.close()

    def start_run(self) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a library of Flower's
            content = build_fab_from_disk(APP)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        overrides = user_config_to_proto({"job": "nothing"})
        request = StartRunRequest(fab=fab_to_proto(fab), override_config=overrides)
        return int(self.control.StartRun(request).run_id)

    def take_task(self) -> str:
        """The token of a server task, taken away from the process that should have it."""
        return str(
            self.runtime.AcquireTask(AcquireTaskRequest(supported_task_types=[SERVER_TASK])).token
        )

    @contextlib.contextmanager
    def server(self, token: str) -> Iterator[HttpGrid]:
        """Be the server of the run whose task was taken."""
        grid = HttpGrid(self.address, False, self.certificate, token=token)
        client = grid._runtime_client
        heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
        heart.start()
        try:
            given = client.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id = given.task_id
            TaskIdentity.run_id = given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            yield grid
            client.PushTaskOutput(PushTaskOutputRequest(sub_status="completed", details=""))
        finally:
            heart.stop()
            grid.close()

    def answers(self, grid: HttpGrid, messages: list[Message], seconds: float) -> list[Message]:
        """What the nodes say to the messages that Flower takes for them."""
        waiting = {id for id in grid.push_messages(messages) if id}
        assert len(waiting) == len(messages)
        replies: list[Message] = []
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            new = list(grid.pull_messages(waiting))
            waiting -= {reply.metadata.reply_to_message_id for reply in new}
            replies += new
            time.sleep(0.5)
        assert not waiting
        return replies


def statuses(client: object) -> dict[str, int]:
    """What every method of an interface says to an empty request, as HTTP says it."""
    found = {}
    for name in [name for name in dir(client) if name[0].isupper()]:
        request = get_type_hints(getattr(type(client), name))["request"]
        found[name] = status(partial(getattr(client, name), request()))
    return found


def status(call: Callable[[], Any]) -> int:
    """How a request fails, or 200."""
    try:
        answer = call()
        if isinstance(answer, Iterator):  # in pieces, and asked for by the first
            next(answer, None)
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    return 200


class Tap:
    """Reads what passes through a SuperLink out of its database, as long as it is there."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.messages: dict[str, Message] = {}

    def look(self) -> None:
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as base:
            try:
                rows = base.execute("SELECT object_id, content FROM objects").fetchall()
            except sqlite3.OperationalError:  # busy this moment
                return
        contents = {key: content for key, content in rows if content}
        for key, content in contents.items():
            with contextlib.suppress(Exception):  # parts of it may still be on their way
                if get_object_type_from_object_content(content) == "Message":
                    message: Any = inflate_object_from_contents(key, dict(contents))
                    self.messages.setdefault(key, message)

    def orders(self, node: int) -> dict[str, Message]:
        """The last signed message of each type to a node."""
        found = {}
        for message in self.messages.values():
            if message.metadata.dst_node_id == node and "order" in message.content:
                found[message.metadata.message_type] = message
        return found
