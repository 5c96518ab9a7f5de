"""A coordinator and a site within this process: who can read an answer, and who can make one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Settings
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from switchboard import Node, Switchboard

from fedkf.core.client import Call, Reply
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload
from fedkf.flower.answers import ROOM, Forgery, Opener, check_sealable, plain, read, sealed
from fedkf.flower.carrier import FlowerEngine
from fedkf.flower.client import client, digest_of
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.grid import SignedGrid
from fedkf.flower.handshake import Invitation, answer
from fedkf.flower.keys import make_node_key
from fedkf.flower.logs import REFUSED, SENT, RefusedLog, SentLog
from fedkf.flower.messages import make_call, packed, unpacked
from fedkf.flower.orders import Numbers
from fedkf.flower.settings import SiteRefusal, outgoing
from fedkf.flower.site import VARIABLE, Host, SiteFolder
from fedkf.flower.sites import Sites, gather
from fedkf.runs.config import resolve
from fedkf.runs.schema import Config
from fedkf.runs.setup import make_task

NODE = 7
EXPERIMENT = "0123abcd"


class Pair:
    """A coordinator and its one site, whose answers pass through `carry`."""

    def __init__(self, folder: Path, npz: Path, config: Config) -> None:
        self.config = config
        self.coordinator = Coordinator(folder / "coordinator")
        self.coordinator.create(["127.0.0.1"], 8000)
        self.site = SiteFolder(folder / "site")
        self.site.create("north", "127.0.0.1:8000", self.coordinator / "ca.crt")
        text = (self.site / "site.yaml").read_text().replace("source: folder", "source: npz")
        (self.site / "site.yaml").write_text(text.replace("path: null", f"path: {npz}"))
        public = (self.site / "node.pub").read_text()
        (self.coordinator / "keys.json").write_text(json.dumps({"north": public}))
        (self.coordinator / "sites.json").write_text(json.dumps({"north": NODE}))
        self.carry: Callable[[Message, Message], Message] = lambda message, reply: reply
        self.board = Switchboard({NODE: self.serve})
        self.carried: list[tuple[Message, RecordDict]] = []
        self.nodes = {0: NODE}

    def serve(self, message: Message) -> Message:
        context = Context(1, NODE, {}, RecordDict(), {})
        reply = client(message, context)
        self.carried.append((message, reply.content))
        return self.carry(message, reply)

    def grid(self) -> SignedGrid:
        """As every run of the coordinator makes one."""
        numbers = Numbers(self.coordinator / "orders")
        own = self.coordinator.own_keys()
        return SignedGrid(self.board, own, self.coordinator.site_keys, numbers)

    def invite(self) -> tuple[Sites | None, str]:
        said: list[str] = []
        nodes = self.coordinator.nodes()
        try:
            sites = gather(self.grid(), nodes, self.config, EXPERIMENT, 5, said.append)
        except FedkfError:
            return None, said[0]
        return sites, said[0]

    def call(self) -> Call:
        return Call("local_update", 0, 1, None, "1.1")

    def head(self) -> dict[str, Any]:
        return {**Invitation(outgoing(self.config), EXPERIMENT).head(), "keep": []}

    def down(self) -> Payload:
        host = Host(self.site, Invitation(outgoing(self.config), EXPERIMENT))
        weights = make_task(host.config, host.data, host.algorithm).initial_weights
        return Payload(weights=weights).add("teacher", weights, "weights")

    def train(self) -> Reply:
        replies: list[Reply] = []

        def accept(reply: Reply) -> bool:
            replies.append(reply)
            return True

        engine = FlowerEngine(
            self.grid(), lambda: self.nodes, timeout=60, more=lambda _: self.head()
        )
        engine.exchange([self.call()], self.down(), accept)
        return replies[0]


@pytest.fixture
def pair(tmp_path: Path, npz: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Pair:
    names = {"data.class_names": ["0", "1", "2"], "federation.min_clients": 1}
    made = Pair(tmp_path, npz, resolve(settings, names))
    monkeypatch.setenv(VARIABLE, str(made.site.path))
    return made


def refusals(pair: Pair) -> list[dict[str, Any]]:
    file = pair.site / REFUSED
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_site_works_for_its_coordinator_and_writes_down_what_it_sent(pair: Pair) -> None:
    sites, said = pair.invite()
    assert sites is not None
    assert said == "north takes part with 72 training samples"
    reply = pair.train()
    assert reply.error == ""
    assert reply.upload is not None
    assert reply.wrote_state
    assert refusals(pair) == []
    log = SentLog(pair.site / SENT)
    assert log.check(pair.site.key().public_key()) == 2
    first, second = (json.loads(line) for line in log.file.read_text().splitlines())
    assert (first["type"], first["kinds"]) == ("query", {"sizes": 16, "shape": 24})
    assert (second["type"], second["experiment"], second["round"]) == ("train", EXPERIMENT, "1")
    assert second["kinds"] == reply.upload.nbytes()


def test_a_site_is_one_client_of_an_experiment(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.invite()
    assert pair.train().error == ""
    asked = pair.call()
    for number, error in ((1, "it was asked as another client of this experiment before"), (0, "")):
        call = replace(asked, client=number, round=2, version="2.1")
        monkeypatch.setattr(pair, "call", lambda call=call: call)
        monkeypatch.setattr(pair, "nodes", {number: NODE})
        assert pair.train().error == error


def test_whoever_carries_an_answer_cannot_read_it(pair: Pair) -> None:
    pair.invite()
    pair.train()
    (_, about), (_, trained) = pair.carried
    for content in (about, trained):
        assert set(content) == {"seal", "sealed"}
        assert set(content.config_records["seal"]) == {"ephemeral", "signature"}
    hidden = unpacked(trained.array_records["sealed"])
    assert b"weights" not in hidden
    assert b"wrote_state" not in hidden
    site, own = pair.site.key().public_key(), pair.coordinator.own_keys().sealing
    message, content = pair.carried[1]
    order, reply = digest_of(message), Message(content, reply_to=message)
    assert b"wrote_state" in plain(Message(Opener(own).open(reply, order, site), reply_to=message))
    with pytest.raises(Forgery, match="cannot be opened with the coordinator's key"):
        Opener(X25519PrivateKey.generate()).open(reply, order, site)


def sent_by(pair: Pair, node: Node) -> str:
    """What the coordinator says of an answer that comes from `node`."""
    pair.board.nodes[NODE] = node
    _, said = pair.invite()
    error = pair.train().error
    assert error
    assert said == f"north does not take part: {error}"
    return error


def test_an_answer_of_somebody_else_is_noticed(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_node_key(tmp_path / "other")
    other = SiteFolder(tmp_path / "other")

    def forged(message: Message) -> Message:
        reply = answer(message, {"train": 5, "test": 5, "shape": [1, 8, 8]})
        to = pair.site.trusted().sealing
        return Message(sealed(reply, digest_of(message), other.key(), to), reply_to=message)

    assert "not signed by it" in sent_by(pair, forged)

    def open_(message: Message) -> Message:
        return answer(message, {"train": 5, "test": 5, "shape": [1, 8, 8]})

    assert sent_by(pair, open_) == "its answer is not sealed"


def test_an_answer_cannot_be_changed_or_given_again(pair: Pair) -> None:
    pair.invite()
    assert pair.train().error == ""
    _, old = pair.carried[1]

    def again(message: Message, reply: Message) -> Message:
        reply.content = old
        return reply

    pair.carry = again
    assert "not signed by it, or answers something else" in pair.train().error

    def altered(message: Message, reply: Message) -> Message:
        hidden = bytearray(reply.content.array_records["sealed"]["0"].numpy().tobytes())
        hidden[20] ^= 1
        reply.content["sealed"] = packed(bytes(hidden))
        return reply

    pair.carry = altered
    assert "not signed by it" in pair.train().error


def test_a_stranger_gets_nothing_and_is_named(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    """With every kind of message that Flower lets through, and without the coordinator's key."""
    pair.invite()
    before = sorted((pair.site / "state").rglob("*"))
    query = Message(RecordDict({"call": ConfigRecord(pair.head())}), NODE, MessageType.QUERY)
    record = packed(pair.down().to_bytes())
    train = make_call(pair.call(), record, NODE, pair.head(), 60)
    evaluate = make_call(Call("evaluate", 0, 1, None, "1.1"), record, NODE, pair.head(), 60)
    empty = Message(RecordDict(), NODE, MessageType.TRAIN)
    capsys.readouterr()
    pair.board.push_messages([query, train, evaluate, empty])
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("fedkf site: refused message")]) == 4
    assert not any("Traceback" in line for line in said)  # it would fill the log
    for _, content in pair.carried[1:]:
        assert set(content) == {"seal", "sealed"}
        assert len(unpacked(content.array_records["sealed"])) < 200
    assert [r["reason"] for r in refusals(pair)] == ["it is not signed"] * 4
    assert [r["number"] for r in refusals(pair)] == [1, 2, 3, 4]
    assert [r["type"] for r in refusals(pair)] == ["query", "train", "evaluate", "train"]
    assert refusals(pair)[1]["run"] == "1"
    assert sorted((pair.site / "state").rglob("*")) == before
    assert SentLog(pair.site / SENT).check(pair.site.key().public_key()) == 1


@pytest.mark.parametrize("file", ["coordinator.pub", "node.key", "sent.jsonl"])
def test_where_a_site_cannot_answer_as_it_must_it_says_nothing(pair: Pair, file: str) -> None:
    pair.invite()
    (pair.site / file).unlink()
    (pair.site / file).mkdir()
    context = Context(1, NODE, {}, RecordDict(), {})
    grid = pair.grid()
    caught: list[str] = []

    def node(message: Message) -> None:
        with pytest.raises(SiteRefusal) as error:
            client(message, context)
        caught.append(str(error.value))

    pair.board.nodes[NODE] = node
    query = Message(RecordDict({"call": ConfigRecord(pair.head())}), NODE, MessageType.QUERY)
    grid.push_messages([query])
    assert len(caught) == 1
    assert str(pair.site.path) not in caught[0]
    assert "its own log" in caught[0]


def test_a_captured_message_is_of_no_use(pair: Pair) -> None:
    pair.invite()
    pair.train()
    captured = [message for message, _ in pair.carried]
    pair.board.push_messages(captured)
    assert ["an old one" in r["reason"] for r in refusals(pair)] == [True, True]
    # The coordinator itself is told why.
    file = pair.site / "orders.json"
    file.write_text(json.dumps({EXPERIMENT: 2**60}))
    assert "it refuses the message: it is an old one" in pair.train().error


def test_with_new_keys_a_site_obeys_only_once_it_has_them(pair: Pair) -> None:
    pair.invite()
    pair.coordinator.renew_keys()
    assert pair.train().error == "its answer cannot be opened with the coordinator's key"
    assert refusals(pair)[-1]["reason"] == "it is not signed by the coordinator"
    pair.site.trust(pair.coordinator / "ca.crt")
    assert pair.train().error == ""


def other_coordinator(pair: Pair, folder: Path) -> Coordinator:
    """A coordinator in a folder of its own, with the same site."""
    made = Coordinator(folder)
    made.create(["127.0.0.1"], 8000)
    for name in ("keys.json", "sites.json"):
        (made / name).write_bytes((pair.coordinator / name).read_bytes())
    return made


def test_a_new_coordinator_is_obeyed_although_the_clock_of_the_one_before_was_ahead(
    pair: Pair, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    def obey(coordinator: Coordinator) -> None:
        assert cli("site", "trust", pair.site.path, coordinator / "ca.crt").code == 0
        pair.coordinator = coordinator

    first, orders = pair.coordinator, pair.site / "orders.json"
    (first / "orders").write_text(str(2**60))  # centuries ahead
    pair.invite()
    before = orders.read_bytes()
    obey(first)  # the same again changes nothing
    assert orders.read_bytes() == before
    captured = pair.carried[-1][0]
    second = other_coordinator(pair, tmp_path / "second")
    obey(second)
    assert pair.invite()[0] is not None
    assert pair.train().error == ""
    new = pair.carried[-1][0]
    pair.board.push_messages([captured, new])
    assert refusals(pair)[0]["reason"] == "it is not signed by the coordinator"
    assert "an old one" in refusals(pair)[1]["reason"]
    # Whoever is trusted again goes on where it was: what it ordered before is not obeyed twice.
    obey(first)
    assert orders.read_bytes() == before
    pair.board.push_messages([captured, new])
    assert "an old one" in refusals(pair)[2]["reason"]
    assert pair.train().error == ""
    obey(second)
    pair.board.push_messages([new])
    assert "an old one" in refusals(pair)[-1]["reason"]


def test_taking_a_new_coordinator_is_made_up_for_after_a_crash(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pair.coordinator / "orders").write_text(str(2**60))
    pair.invite()
    second = other_coordinator(pair, tmp_path / "second")

    def crash(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr("fedkf.flower.site.take_up", crash)
        with pytest.raises(KeyboardInterrupt):
            pair.site.trust(second / "ca.crt")
    pair.coordinator = second
    assert "an old one" in pair.train().error
    pair.site.trust(second / "ca.crt")
    assert pair.train().error == ""


def test_a_site_counts_its_refusals_and_its_log_has_an_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedkf.flower.logs.MOST", 200)
    log = RefusedLog(pair.site / REFUSED)
    for _ in range(20):
        log.append("it is not signed", {"type": "train"})
    assert log.count() == 20
    assert log.file.stat().st_size < 400
    assert "refused message 20: it is not signed" in capsys.readouterr().err


def test_an_answer_larger_than_expected_is_not_opened(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.invite()
    monkeypatch.setattr(FlowerEngine, "largest", 1000)

    def swollen(message: Message, reply: Message) -> Message:
        reply.content["sealed"] = packed(bytes(1 << 23))
        return reply

    pair.carry = swollen
    assert "its answer has 8.4 MB, and" in pair.train().error
    pair.carry = lambda message, reply: reply
    assert pair.train().error == ""


def test_a_long_head_of_an_answer_is_not_parsed() -> None:
    head = b"[" + b"{}," * 30000 + b"{}]"
    with pytest.raises(Forgery, match="a head of 90004 bytes, and 65536 are the most"):
        read(len(head).to_bytes(8, "little") + head)


def test_an_answer_too_large_to_be_sealed_is_told_in_a_sentence(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.invite()
    monkeypatch.setattr("fedkf.flower.client.MOST", ROOM + 2000)
    assert pair.train().error == "its answer of 0.0 GB is too large to be sealed"


def test_a_model_too_large_to_be_sealed_is_refused_at_the_start(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(pair.site, Invitation(outgoing(pair.config), EXPERIMENT))
    check_sealable(host.assembly)
    monkeypatch.setattr("fedkf.flower.answers.MOST", ROOM + 2000)
    with pytest.raises(UserError, match=r"model.name: .*transport.uplink=half or delta8"):
        check_sealable(host.assembly)
