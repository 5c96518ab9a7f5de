"""The engine on Flower: replies that cannot be used, clients that are lost and come back."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings, model_bytes
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.error import Error
from lab import destinations, own_addresses, resolvers, traced
from switchboard import Node, Switchboard

import fedkf
from fedkf.core.client import Call, Reply
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.server import Enough
from fedkf.flower.carrier import MARGIN, FlowerEngine
from fedkf.flower.messages import make_reply, packed, read_call, read_payload, unpacked

RAY_STARTS = {("169.254.169.254", 80), ("8.8.8.8", 53)}
"""What Ray does when it starts: it asks whether it is in a cloud, by the address and the name of
the place where clouds tell a machine about itself, and it looks which of its own addresses would be
used for another machine (a datagram socket is connected, and nothing is sent)."""

TINY: dict[str, dict[str, Any]] = {
    "data": {"source": "digits", "clients": 4, "alpha": 0.5, "limit": 10},
    "federation": {"rounds": 2, "fraction": 0.5, "local_epochs": 1, "batch_size": 8},
    "generator": {"width": 4, "noise": 8},
}


CLINICAL = {"metrics": ["balanced_accuracy", "auroc", "sensitivity", "ece"]}


@pytest.mark.parametrize(("algorithm", "more"), [("fedkf", {}), ("scaffold", CLINICAL)])
def test_flowers_simulation_gives_the_models_of_a_local_run_byte_for_byte(
    tmp_path: Path, algorithm: str, more: dict[str, Any]
) -> None:
    import json

    tiny = {**TINY, "data": {**TINY["data"], **more}, "algorithm": {"name": algorithm}}
    (tmp_path / "tiny.yaml").write_text(json.dumps(tiny))
    log = tmp_path / "strace"
    command = [sys.executable, "-m", "fedkf", "run", "tiny.yaml", "--out", "flower"]
    done = subprocess.run(
        [*traced(log), *command, "--engine", "flower", "--workers", "1"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "round 2/2" in done.stderr
    assert "WARNING" not in done.stderr
    local = fedkf.run(tmp_path / "tiny.yaml", out=tmp_path / "local", workers=0)
    assert model_bytes(tmp_path / "flower") == model_bytes(tmp_path / "local")
    summary = json.loads((tmp_path / "flower" / "summary.json").read_text())
    for key in ("readouts", "bytes", "disclosed"):
        assert summary[key] == local.summary[key]
    assert summary.get("sites") == local.summary.get("sites")
    assert bool(summary.get("sites")) == bool(more)
    paths = [tmp_path / name / "ledger.json" for name in ("flower", "local")]
    assert json.loads(paths[0].read_bytes()) == json.loads(paths[1].read_bytes())
    # The local engine goes on with what Flower's simulation began.
    for folder in ("flower", "local"):
        fedkf.run(tmp_path / "tiny.yaml", out=tmp_path / folder, workers=0, rounds=3, resume=True)
    assert model_bytes(tmp_path / "flower") == model_bytes(tmp_path / "local")
    here = own_addresses()
    away = {(host, port) for host, port in destinations(log) if host not in here}
    assert away <= RAY_STARTS | resolvers()


def test_without_flower_the_sentence_says_how_to_install_it(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    for command in (
        ["run", "digits", "--engine", "flower", "--out", tmp_path / "run"],
        ["coordinator", "init", tmp_path / "coordinator"],
        ["site", "check", tmp_path / "site", "digits"],
    ):
        outcome = cli(*command)
        assert outcome.code == 2
        assert "pip install 'fedkf[flower]'" in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1


def test_a_cluster_that_is_not_there_is_named(settings: Settings) -> None:
    with pytest.raises(UserError, match=r"engine\.address: no Ray cluster at '127\.0\.0\.1:9'"):
        fedkf.run(settings, engine={"name": "flower", "address": "127.0.0.1:9"})


# -- faults ----------------------------------------------------------------------------------------

DOWN = Payload(weights={"w": torch.arange(3.0)})


def fine(message: Message) -> Message:
    call, _ = read_call(message)
    upload = Payload(weights={"w": read_payload(message)["weights"]["w"] + call.client})
    return make_reply(message, call, {"wrote_state": True}, upload.to_bytes())


def failing(message: Message) -> Message:
    call, _ = read_call(message)
    return make_reply(message, call, {"error": "RuntimeError: on fire"}, b"")


def stale(message: Message) -> Message:
    call, _ = read_call(message)
    late = Call(call.step, call.client, call.round - 1, None, "1.1")
    return make_reply(message, late, {"wrote_state": True}, DOWN.to_bytes())


def garbage(message: Message) -> Message:
    call, _ = read_call(message)
    return make_reply(message, call, {"wrote_state": True}, b"not a payload at all")


def large(message: Message) -> Message:
    call, _ = read_call(message)
    upload = Payload(weights={"w": torch.zeros(1000)})
    return make_reply(message, call, {"wrote_state": True}, upload.to_bytes())


def other(message: Message) -> Message:
    return Message(RecordDict({"arrays": ArrayRecord({"w": torch.ones(1)})}), reply_to=message)


def pickled(message: Message) -> Message:
    call, _ = read_call(message)
    head = ConfigRecord({"version": call.version, "client": call.client, "wrote_state": True})
    two = ArrayRecord({"a": torch.ones(1), "b": torch.ones(1)})
    return Message(RecordDict({"reply": head, "payload": two}), reply_to=message)


def bytes_of(content: bytes) -> Node:
    """A node whose answer holds these bytes in the place of an array."""

    def node(message: Message) -> Message:
        call, _ = read_call(message)
        reply = make_reply(message, call, {"wrote_state": True}, b"-")
        array = Array("uint8", (1,), "numpy.ndarray", content)
        reply.content["payload"] = ArrayRecord({"0": array})
        return reply

    return node


def nested(message: Message) -> Message:
    call, _ = read_call(message)
    content = (1500).to_bytes(8, "little") + b"[" * 1500
    return make_reply(message, call, {"wrote_state": True}, content)


def vast(message: Message) -> Message | None:
    """An array that says it has 2⁴⁵ entries."""
    file = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (2**45,)}
    np.lib.format.write_array_header_1_0(file, about)
    return bytes_of(file.getvalue())(message)


def coloured(message: Message) -> Message:
    call, _ = read_call(message)
    return make_reply(message, call, {"error": "on\x1b[2J fire"}, b"")


def crashed(message: Message) -> Message:
    return Message(Error(2, "<class 'MemoryError'>"), reply_to=message)


def refused(message: Message) -> Message:
    return Message(Error(7, "Invalid FAB"), reply_to=message)


def lost(message: Message) -> Message:
    return Message(Error(5, "Node unavailable"), reply_to=message)


def silent(message: Message) -> None:
    return None


def replies_of(engine: FlowerEngine, calls: list[Call]) -> dict[int, Reply]:
    replies: dict[int, Reply] = {}

    def accept(reply: Reply) -> bool:
        replies[reply.call.client] = reply
        return reply.upload is not None

    engine.exchange(calls, DOWN, accept)
    return replies


def ask(nodes: dict[int, Node], step: str = "local_update", **options: Any) -> dict[int, Reply]:
    engine = FlowerEngine(
        Switchboard(nodes),
        lambda: {client: client for client in nodes},
        pause=0.01,
        **options,
    )
    engine.largest = 2000
    calls = [Call(step, client, 2, None, "2.1") for client in nodes]
    return replies_of(engine, calls)


def test_nobody_is_waited_for_once_there_are_enough_answers() -> None:
    nodes: dict[int, Node] = {0: silent, 1: fine, 2: fine}
    engine = FlowerEngine(Switchboard(nodes), lambda: {k: k for k in nodes}, timeout=60)
    answered: list[int] = []

    def accept(reply: Reply) -> bool:
        answered.append(reply.call.client)
        if len(answered) == 2:
            raise Enough
        return True

    with pytest.raises(Enough):
        engine.exchange([Call("local_update", k, 2, None, "2.1") for k in nodes], DOWN, accept)
    assert answered == [1, 2]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (failing, "RuntimeError: on fire"),
        (stale, "it answered another message"),
        (garbage, "its answer cannot be used: not a payload"),
        (large, "0.0 MB are expected at most"),
        (other, "its answer cannot be used"),
        (pickled, "it holds other arrays than one payload"),
        (bytes_of(b""), "its answer cannot be used"),
        (bytes_of(b"PK\x03\x04"), "its answer cannot be used"),
        (vast, "its answer cannot be used"),
        (nested, "its answer cannot be used"),
        (coloured, "on [2J fire"),
        (refused, "Flower reports: Invalid FAB"),
        (crashed, "Flower reports: <class 'MemoryError'>"),
        (lost, "the connection to it was lost"),
        (silent, "no answer within 0.2 s"),
    ],
)
def test_a_reply_that_cannot_be_used_is_told_and_the_others_count(node: Node, reason: str) -> None:
    replies = ask({0: fine, 1: node, 2: fine}, timeout=0.2, need=2)
    assert reason in replies[1].error
    assert replies[1].upload is None
    for client in (0, 2):
        upload = replies[client].upload
        assert upload is not None
        assert torch.equal(upload["weights"]["w"], torch.arange(3.0) + client)
        assert replies[client].wrote_state


def test_too_few_answers_wait_for_a_client_to_come_back() -> None:
    tries = []

    def returning(message: Message) -> Message:
        tries.append(message)
        return lost(message) if len(tries) < 3 else fine(message)

    replies = ask({0: fine, 1: returning}, timeout=60, need=2)
    assert len(tries) == 3
    assert replies[1].upload is not None


def test_an_upload_that_the_server_refuses_is_no_answer() -> None:
    tries = []

    def returning(message: Message) -> Message:
        tries.append(message)
        return lost(message) if len(tries) < 2 else fine(message)

    engine = FlowerEngine(
        Switchboard({0: fine, 1: returning}), lambda: {0: 0, 1: 1}, timeout=60, pause=0.01
    )
    calls = [Call("local_update", client, 2, None, "2.1") for client in (0, 1)]
    engine.exchange(calls, DOWN, lambda reply: reply.call.client == 1)
    assert len(tries) == 2


def test_nobody_waits_for_a_client_that_is_not_needed_or_when_time_is_up() -> None:
    assert "was lost" in ask({0: fine, 1: lost}, timeout=60, need=1)[1].error
    assert "was lost" in ask({0: fine, 1: lost}, timeout=0.2, need=2)[1].error
    assert "was lost" in ask({0: lost, 1: lost}, step="evaluate", timeout=60, need=2)[1].error


def test_a_client_that_is_not_connected_is_named() -> None:
    board = Switchboard({0: fine})
    engine = FlowerEngine(board, lambda: {0: 0}, timeout=1)
    calls = [Call("local_update", client, 1, None, "1.1") for client in (0, 1)]
    replies = replies_of(engine, calls)
    assert replies[1].error == "it is not connected"
    assert replies[0].upload is not None
    assert len(board.sent) == 1


def test_a_call_that_flower_does_not_accept_is_named() -> None:
    engine = FlowerEngine(Switchboard({0: fine}), lambda: {0: 0, 1: 1}, timeout=1)
    calls = [Call("local_update", client, 1, None, "1.1") for client in (0, 1)]
    replies = replies_of(engine, calls)
    assert replies[1].error == "it is not connected"
    assert replies[0].upload is not None


def test_nobody_is_asked_again_at_once_or_after_the_time_of_the_exchange() -> None:
    board = Switchboard({0: fine, 1: lost})
    engine = FlowerEngine(board, lambda: {0: 0, 1: 1}, timeout=0.5, need=2, pause=0.02)
    calls = [Call("local_update", client, 1, None, "1.1") for client in (0, 1)]
    assert len(replies_of(engine, calls)) == 2
    assert 3 <= len(board.sent) <= 5
    assert all(MARGIN <= message.metadata.ttl <= MARGIN + 0.5 for message in board.sent)


def test_bytes_come_back_as_they_were_sent() -> None:
    content = os.urandom(1000)
    assert unpacked(packed(content)) == content
