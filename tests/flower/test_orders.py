"""What a site obeys: orders that its coordinator signed, for it, once, and in time."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from switchboard import Switchboard

from fedkf.core.client import Call
from fedkf.core.errors import FedkfError
from fedkf.flower.messages import make_call, packed
from fedkf.flower.orders import Guard, Numbers, OrderRefusal, Recipient, sign

KEY = Ed25519PrivateKey.generate()
OWN = Recipient(7, "ab" * 32)
EXPERIMENT = "0123abcd"


def order(number: int = 5, *, to: Recipient = OWN, experiment: str = EXPERIMENT) -> Message:
    """A signed call, as it arrives."""
    Switchboard({})  # messages need a process of Flower's
    call = Call("local_update", 4, 2, "1.1", "2.1")
    more = {"config": '{"data": {}}', "experiment": experiment, "keep": ["1.1"]}
    message = make_call(call, packed(b"weights"), to.node, more, ttl=60)
    sign(message, KEY, to, number)
    message.content = recorddict_from_proto(recorddict_to_proto(message.content))
    return message


@pytest.fixture
def guard(tmp_path: Path) -> Callable[[], Guard]:
    """A guard as every process of a site makes one."""
    return lambda: Guard(tmp_path / "orders.json", KEY.public_key(), OWN)


def refused(guard: Guard, message: Message, words: str) -> None:
    before = guard.file.read_bytes() if guard.file.exists() else b""
    with pytest.raises(OrderRefusal, match=words):
        guard.check(message)
    assert before == (guard.file.read_bytes() if guard.file.exists() else b"")


def test_an_order_of_the_coordinator_is_obeyed(guard: Callable[[], Guard]) -> None:
    assert len(guard().check(order())) == 64


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        ("call", "step", "evaluate"),
        ("call", "client", 5),
        ("call", "round", 3),
        ("call", "start", ""),
        ("call", "version", "3.1"),
        ("call", "config", '{"data": {"seed": 1}}'),
        ("call", "experiment", "4567cdef"),
        ("call", "keep", []),
        ("call", "keep", ["2.1"]),
        ("call", "unknown", 1),
        ("order", "node", "8"),
        ("order", "site", "cd" * 32),
        ("order", "number", 6),
        ("order", "expires", 4e9),
        ("order", "payload", "00" * 32),
        ("order", "unknown", True),
        ("order", "signature", bytes(64)),
        ("order", "signature", b""),
        ("order", "signature", "text"),
    ],
)
def test_no_field_of_an_order_can_be_altered(
    guard: Callable[[], Guard], record: str, key: str, value: Any
) -> None:
    message = order()
    content: Any = message.content[record]
    assert content.get(key) != value
    content[key] = value
    refused(guard(), message, "not signed by the coordinator")


def test_nothing_can_be_left_out_exchanged_or_added(guard: Callable[[], Guard]) -> None:
    for key in ("step", "keep", "config"):
        message = order()
        del message.content.config_records["call"][key]
        refused(guard(), message, "not signed by the coordinator")
    message = order()
    message.content["payload"] = packed(b"another")
    refused(guard(), message, "its payload is not the one that was signed")
    message = order()
    del message.content["payload"]
    refused(guard(), message, "its payload is not the one that was signed")
    message = order()
    message.content["more"] = ConfigRecord({"do": "this"})
    refused(guard(), message, "it holds more than was signed")
    message = order()
    message.metadata.message_type = "evaluate"
    refused(guard(), message, "not signed by the coordinator")


def test_what_a_stranger_signs_or_does_not_sign_is_refused(guard: Callable[[], Guard]) -> None:
    message = order()
    del message.content["order"]
    refused(guard(), message, "it is not signed")
    message.content = RecordDict()
    refused(guard(), message, "it is not signed")
    message = order()
    sign(message, Ed25519PrivateKey.generate(), OWN, 9)
    refused(guard(), message, "not signed by the coordinator")
    message = order()
    del message.content["call"]
    refused(guard(), message, "not signed by the coordinator")


def test_an_order_for_another_site_is_refused(guard: Callable[[], Guard]) -> None:
    for other in (Recipient(8, OWN.site), Recipient(7, "cd" * 32)):
        refused(guard(), order(to=other), "meant for another site")


def test_an_order_counts_once_and_none_older_than_it(guard: Callable[[], Guard]) -> None:
    first, second = order(5), order(6)
    guard().check(second)
    refused(guard(), second, r"an old one \(number 6, and 6 was seen\)")  # in a new process
    refused(guard(), first, r"an old one \(number 5, and 6 was seen\)")
    guard().check(order(7))


def test_an_older_run_is_not_begun_again_and_two_may_go_on(guard: Callable[[], Guard]) -> None:
    other = "4567cdef"
    guard().check(order(5))
    refused(guard(), order(4, experiment=other), "an old one")
    guard().check(order(8, experiment=other))
    guard().check(order(6))
    refused(guard(), order(8, experiment=other), "an old one")


def test_an_order_expires(guard: Callable[[], Guard], monkeypatch: pytest.MonkeyPatch) -> None:
    message = order()
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    refused(guard(), message, "it expired 1 s ago")


def test_of_many_processes_one_obeys(guard: Callable[[], Guard]) -> None:
    message, obeyed = order(), []
    start = threading.Barrier(8)

    def obey() -> None:
        own = guard()
        start.wait()
        with contextlib.suppress(OrderRefusal):
            obeyed.append(own.check(message))

    threads = [threading.Thread(target=obey) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(obeyed) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"0123abcd": "5"}', '{"0123abcd": 1e300}'])
def test_when_it_cannot_know_what_was_seen_it_obeys_nothing(
    guard: Callable[[], Guard], content: str
) -> None:
    guard().file.write_text(content)
    refused(guard(), order(), r"orders\.json is damaged")


def test_numbers_only_grow_also_after_an_old_copy_was_put_back(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path / "orders")
    first = numbers.take(3)
    assert list(first) == list(range(first[0], first[0] + 3))
    old = numbers.file.read_bytes()
    second = Numbers(tmp_path / "orders").take(2)
    assert second[0] > first[-1]
    numbers.file.write_bytes(old)
    assert numbers.take(1)[0] > second[-1]
    numbers.file.write_text(json.dumps(2**60))  # a clock that went back
    assert list(numbers.take(1)) == [2**60 + 1]


@pytest.mark.parametrize("content", [b"", b"many", b"\xff"])
def test_numbers_that_cannot_be_read_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "orders").write_bytes(content)
    with pytest.raises(FedkfError, match=r"orders is damaged; put a copy back, or remove it if"):
        Numbers(tmp_path / "orders").take(1)
