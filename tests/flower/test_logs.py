"""The log of what a site sent cannot be rewritten unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome

from fedkf.core.digests import digest
from fedkf.core.errors import FedkfError
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.keys import make_node_key, node_key
from fedkf.flower.logs import BEGINNING, MOST, NEAR, RefusedLog, SentLog
from fedkf.flower.site import SiteFolder


@pytest.fixture
def log(tmp_path: Path) -> SentLog:
    """Three answers of a site."""
    make_node_key(tmp_path)
    made = SentLog(tmp_path / "sent.jsonl")
    for round in (1, 2, 3):
        made.append({"round": round, "bytes": 100}, node_key(tmp_path))
    return made


def test_every_line_names_the_one_before(log: SentLog, tmp_path: Path) -> None:
    assert log.check(node_key(tmp_path).public_key()) == 3
    lines = log.file.read_bytes().splitlines()
    previous = [json.loads(line)["previous"] for line in lines]
    assert previous == [BEGINNING, digest(lines[0]), digest(lines[1])]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda a, b, c: [a, b.replace(b"100", b"101"), c], 2),
        (lambda a, b, c: [a, c], 2),
        (lambda a, b, c: [b, c], 1),
        (lambda a, b, c: [a, b, b, c], 3),
        (lambda a, b, c: [a, c, b], 2),
        (lambda a, b, c: [a, b, c, b"{}"], 4),
        (lambda a, b, c: [a, b, c, b"null"], 4),
        (lambda a, b, c: [a, b, c[:50]], 3),
        (lambda a, b, c: [a, b, b"\xff" + c], 3),
    ],
)
def test_a_line_that_is_changed_taken_out_or_put_in_is_named(
    log: SentLog, tmp_path: Path, change: Callable[..., list[bytes]], line: int
) -> None:
    lines = log.file.read_bytes().splitlines()
    log.file.write_bytes(b"\n".join(change(*lines)) + b"\n")
    with pytest.raises(FedkfError, match=f"line {line} is not what the site wrote there"):
        log.check(node_key(tmp_path).public_key())


def test_a_line_that_a_crash_cut_off_was_never_sent(log: SentLog, tmp_path: Path) -> None:
    whole = log.file.read_bytes()
    log.file.write_bytes(whole + whole[:30])
    with pytest.raises(FedkfError, match="line 4"):
        log.check(node_key(tmp_path).public_key())
    log.append({"round": 4}, node_key(tmp_path))
    assert log.check(node_key(tmp_path).public_key()) == 4
    assert log.file.read_bytes().startswith(whole)


@pytest.mark.parametrize("torn", [b"", b'{"time": "', b'{"more": "' + b"y" * NEAR])
def test_a_line_may_be_longer_than_what_is_read_at_once(
    log: SentLog, tmp_path: Path, torn: bytes
) -> None:
    key = node_key(tmp_path)
    told = {"promises": "x" * 3 * NEAR}
    log.append({"account": told}, key)
    with open(log.file, "ab") as file:
        file.write(torn)
    assert log.last("account", key.public_key()) == told
    log.append({"round": 5}, key)
    assert log.check(key.public_key()) == 5


def test_another_sites_line_is_not_its_own(log: SentLog, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_node_key(tmp_path / "other")
    log.append({"round": 4}, node_key(tmp_path / "other"))
    with pytest.raises(FedkfError, match="line 4"):
        log.check(node_key(tmp_path).public_key())


def numbers(file: Path) -> list[int]:
    return [json.loads(line)["number"] for line in file.read_text().splitlines()]


def test_a_crash_does_not_change_how_many_messages_were_refused(tmp_path: Path) -> None:
    log = RefusedLog(tmp_path / "refused.jsonl")
    assert log.count() == 0
    for _ in range(3):
        log.append("it is not signed", {})
    whole = log.file.read_bytes()
    for torn in (b"{", whole[:30], whole.splitlines()[0]):
        log.file.write_bytes(whole + torn)
        assert log.count() == 3
        log.append("it is not signed", {})
        assert numbers(log.file) == [1, 2, 3, 4]
    log.file.rename(tmp_path / "refused.jsonl.old")  # and a crash before another one is begun
    assert log.count() == 4
    log.append("it is not signed", {})
    assert numbers(log.file) == [5]


def test_a_full_log_of_refused_messages_is_put_aside_and_counted_on(tmp_path: Path) -> None:
    log = RefusedLog(tmp_path / "refused.jsonl")
    log.append("it is not signed", {"type": "x" * MOST})
    log.append("it is not signed", {})
    assert numbers(tmp_path / "refused.jsonl.old") == [1]
    assert numbers(log.file) == [2]
    assert log.count() == 2


def test_site_check_says_what_was_sent_and_where_the_log_is_broken(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    Coordinator(tmp_path / "coordinator").create(["127.0.0.1"], 8000)
    site = SiteFolder(tmp_path / "site")
    site.create("north", "127.0.0.1:8000", tmp_path / "coordinator" / "ca.crt")
    log = SentLog(site / "sent.jsonl")
    for round in (1, 2):
        log.append({"round": round}, site.key())
    outcome = cli("site", "check", site.path)
    assert outcome.code == 0
    assert "north has sent 2 answers (sent.jsonl is unbroken)" in outcome.out + outcome.err
    log.file.write_bytes(log.file.read_bytes().splitlines()[1] + b"\n")
    outcome = cli("site", "check", site.path)
    assert outcome.code == 1
    assert "line 1 is not what the site wrote there" in outcome.err
    (site / "node.key").write_text("a key")
    outcome = cli("site", "check", site.path)
    assert (outcome.code, "node.key is damaged" in outcome.err) == (2, True)
    (site / "node.key").unlink()
    outcome = cli("site", "check", site.path)
    assert (outcome.code, "node.key is not there" in outcome.err) == (2, True)
