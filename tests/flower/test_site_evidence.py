"""An account that was deleted, cut, changed or put back from a backup begins no new budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Settings
from test_answers import EXPERIMENT, NODE, Pair

from fedkf.core.client import Call, Reply
from fedkf.core.payload import Payload
from fedkf.flower.budget import FILE
from fedkf.flower.carrier import FlowerEngine
from fedkf.flower.evidence import KEY, ORDERS
from fedkf.flower.logs import SENT, SentLog
from fedkf.flower.site import VARIABLE
from fedkf.runs.config import resolve

pytest.importorskip("dp_accounting")
BEHIND = "privacy.json is gone or tells of less than sent.jsonl"
LOST = "sent.jsonl, which tells what was spent, is gone or changed"
Change = Callable[[Path], None]


class Private(Pair):
    """A coordinator that asks its site for turns under privacy."""

    weights: Payload

    def turn(self, round: int = 1) -> str:
        """Asks for a turn; why there was none, if there was none."""
        replies: list[Reply] = []

        def accept(reply: Reply) -> bool:
            replies.append(reply)
            return True

        nodes, call = {0: NODE}, Call("local_update", 0, round, None, f"{round}.1")
        engine = FlowerEngine(self.grid(), lambda: nodes, timeout=60, more=lambda _: self.head())
        engine.exchange([call], self.weights, accept)
        return str(replies[0].error)

    def turns(self) -> int:
        return len(json.loads((self.site / FILE).read_text())["turns"])


@pytest.fixture
def pair(tmp_path: Path, npz: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Private:
    """Two turns have been taken, of a budget for four."""
    keys: dict[str, Any] = {"data.class_names": ["0", "1", "2"], "federation.min_clients": 1}
    keys |= {"privacy.epsilon": 8.0, "privacy.turns": 4, "algorithm.name": "fedavg"}
    made = Private(tmp_path, npz, resolve(settings, keys))
    monkeypatch.setenv(VARIABLE, str(made.site.path))
    made.weights = made.down()
    assert made.invite()[0] is not None
    assert [made.turn(k) for k in (1, 2)] == ["", ""]
    return made


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_text("")


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def cut(file: Path) -> None:
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "turns": content["turns"][:1]}))


def soften(file: Path) -> None:
    """The same number of turns, with more noise than they had."""
    file.write_text(file.read_text().replace('"noise": ', '"noise": 9'))


def promise(file: Path) -> None:
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "promises": {EXPERIMENT: [80.0, 1e-5]}}))


def forget(file: Path) -> None:
    file.write_text("[]")


@pytest.mark.parametrize("change", [delete, cut, soften, promise, forget])
def test_an_account_that_tells_less_than_what_was_sent_allows_nothing(
    pair: Private, change: Change
) -> None:
    change(pair.site / FILE)
    for round in (3, 4):  # what was answered meanwhile does not make it forget
        assert BEHIND in pair.turn(round)
    sites, said = pair.invite()
    assert sites is None
    assert "has it completed from sent.jsonl (fedkf site recover)" in said


def test_a_file_cut_in_its_middle_allows_nothing(pair: Private) -> None:
    for change in (empty, halve):
        change(pair.site / FILE)
        assert "its record of what was spent cannot be read" in pair.turn(3)
        pair.site.accounts().recover()
        assert pair.turns() == 2


def test_an_old_copy_of_the_account_allows_nothing_and_the_newest_goes_on(pair: Private) -> None:
    file = pair.site / FILE
    old = file.read_bytes()
    assert pair.turn(3) == ""
    newest = file.read_bytes()
    file.write_bytes(old)
    assert BEHIND in pair.turn(4)
    file.write_bytes(newest)
    assert pair.turn(4) == ""
    assert "exceed the budget of the experiment" in pair.turn(5)


@pytest.mark.parametrize("change", [delete, cut, soften, promise, forget, empty])
def test_its_operator_has_it_completed_and_the_budget_is_what_is_left(
    pair: Private, change: Change, cli: Callable[..., Outcome]
) -> None:
    before = json.loads((pair.site / FILE).read_text())
    change(pair.site / FILE)
    outcome = cli("site", "recover", pair.site.path)
    assert outcome.code == 0
    after = json.loads((pair.site / FILE).read_text())
    assert after["promises"] == before["promises"]
    assert [t for t in after["turns"] if t in before["turns"]] == before["turns"]
    if change in (delete, empty):
        assert after == before
        assert "has taken 2 turns under privacy" in outcome.out
        assert [pair.turn(k) for k in (3, 4)] == ["", ""]
        assert "exceed the budget of the experiment" in pair.turn(5)
    assert "is unbroken" in cli("site", "check", pair.site.path).out


def test_an_account_may_be_ahead_by_a_turn_that_a_crash_ended(
    pair: Private,
) -> None:
    accounts = pair.site.accounts()
    accounts.charge(EXPERIMENT, accounts.turns()[0], [])
    assert pair.turn(3) == ""
    assert "exceed the budget of the experiment" in pair.turn(4)


def test_a_record_that_is_gone_or_changed_allows_nothing_either(
    pair: Private, cli: Callable[..., Outcome]
) -> None:
    (pair.site / SENT).unlink()
    for round in (3, 4):
        assert LOST in pair.turn(round)
    (pair.site / FILE).unlink()
    assert LOST in pair.turn(5)
    outcome = cli("site", "recover", pair.site.path)
    assert outcome.code == 2
    assert "nothing here tells what was spent; put privacy.json or sent.jsonl back" in outcome.err
    (pair.site / FILE).write_text('{"turns": []}')  # says its operator
    assert cli("site", "recover", pair.site.path).code == 0
    assert pair.turn(6) == ""


def test_a_line_that_the_site_did_not_write_tells_nothing(pair: Private) -> None:
    file = pair.site / SENT
    lines = file.read_text().splitlines()
    assert f'"{KEY}": ' in lines[-1]
    said = json.loads(lines[-1])
    said[KEY]["turns"] = []
    file.write_text("\n".join([*lines[:-1], json.dumps(said), ""]))
    assert LOST in pair.turn(3)


def test_operators_still_allow_another_reading(pair: Private) -> None:
    """Taking the line out is theirs, and makes the account no older."""
    lines = (pair.site / FILE).read_text().splitlines()
    (pair.site / FILE).write_text("\n".join(line for line in lines if '"reading"' not in line))
    assert pair.turn(3) == ""


def test_site_check_tells_that_an_account_is_behind(
    pair: Private, cli: Callable[..., Outcome]
) -> None:
    text = (pair.site / "site.yaml").read_text()
    (pair.site / "site.yaml").write_text(text.replace("privacy: null", "privacy: {epsilon: 20}"))
    assert "they have spent ε" in " ".join(cli("site", "check", pair.site.path).out.split())
    (pair.site / FILE).unlink()
    outcome = cli("site", "check", pair.site.path)
    assert outcome.code == 1
    assert BEHIND in " ".join(outcome.err.split())


def test_sites_without_privacy_write_what_they_always_wrote(
    tmp_path: Path, npz: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {"data.class_names": ["0", "1", "2"], "federation.min_clients": 1}
    made = Private(tmp_path, npz, resolve(settings, keys))
    monkeypatch.setenv(VARIABLE, str(made.site.path))
    assert made.invite()[0] is not None
    assert (made.site / ORDERS).exists()
    assert SentLog(made.site / SENT).check(made.site.key().public_key()) == 1
    assert KEY not in (made.site / SENT).read_text()
    assert not (made.site / FILE).exists()
