"""A site holds to its own budget, whatever its coordinator asks, with chance of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Outcome, Settings

from fedkf.core.client import Call
from fedkf.core.payload import Payload
from fedkf.core.privacy import Mechanism
from fedkf.flower import budget
from fedkf.flower.budget import FILE, Limit, SiteAccounts, Terms
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.handshake import Introduction, Invitation, Members
from fedkf.flower.logs import SENT, SentLog
from fedkf.flower.settings import SiteRefusal, incoming, outgoing
from fedkf.flower.site import Host, SiteFolder
from fedkf.runs.config import resolve

PRIVATE = {"privacy.epsilon": 8.0, "privacy.turns": 2, "algorithm.name": "fedavg"}
Make = Callable[..., Host]


@pytest.fixture
def folder(tmp_path: Path, npz: Path) -> SiteFolder:
    Coordinator(tmp_path / "coordinator").create(["127.0.0.1"], 8000)
    folder = SiteFolder(tmp_path / "site")
    folder.create("north", "127.0.0.1:8000", tmp_path / "coordinator" / "ca.crt")
    text = (folder / "site.yaml").read_text().replace("source: folder", "source: npz")
    (folder / "site.yaml").write_text(text.replace("path: null", f"path: {npz}"))
    return folder


@pytest.fixture
def make(folder: SiteFolder, settings: Settings) -> Make:
    def host(own: str = "null", experiment: str = "0123abcd", **overrides: Any) -> Host:
        text = (folder / "site.yaml").read_text()
        lines = [
            f"privacy: {own}" if line.startswith("privacy:") else line for line in text.splitlines()
        ]
        (folder / "site.yaml").write_text("\n".join(lines))
        keys = {"data.class_names": ["0", "1", "2"], **PRIVATE}
        keys |= {key.replace("__", "."): value for key, value in overrides.items()}
        config = resolve(settings, keys)
        return Host(folder, Invitation(outgoing(config), experiment))

    return host


def train(host: Host, step: str = "local_update", round: int = 1) -> Payload:
    down = Payload(weights=host.assembly.task.initial_weights)
    reply = host.perform(Call(step, 0, round, None, f"{round}.1"), down, [])
    assert reply.upload is not None
    return reply.upload


def test_an_experiment_ends_for_a_site_when_its_promise_is_used_up(make: Make) -> None:
    host = make()
    assert list(train(host)) == ["weights"]
    train(host, round=2)
    with pytest.raises(SiteRefusal, match=r"exceed the budget of the experiment, ε = 8 with"):
        train(make(), round=3)
    train(make(experiment="4567abcd"))  # another one has a promise of its own


def test_its_own_file_limits_all_experiments_together(make: Make, folder: SiteFolder) -> None:
    own = "{epsilon: 9, delta: 1.0e-5}"
    train(make(own))
    train(make(own), round=2)
    with pytest.raises(SiteRefusal, match=r"exceed the budget of its site file, ε = 9"):
        train(make(own, experiment="4567abcd"))
    assert len(SiteAccounts(folder / FILE).turns()) == 2  # what was refused costs nothing


def test_a_coordinator_that_asks_for_less_noise_is_refused(make: Make) -> None:
    with pytest.raises(SiteRefusal, match="its site file asks for privacy"):
        make("{epsilon: 9}", privacy__epsilon=None, privacy__turns=None)
    with pytest.raises(SiteRefusal, match="exceed the budget of its site file"):
        train(make("{epsilon: 9}", privacy__epsilon=None, privacy__noise=0.1))
    received = outgoing(resolve({}, {"data.class_names": ["a", "b"]}))
    assert "privacy" not in received  # as before for sites that know of none
    assert not incoming(received).privacy.on


def test_its_own_delta_must_promise_something(make: Make) -> None:
    with pytest.raises(SiteRefusal, match=r"privacy\.delta of its site file is not below 1/n"):
        make("{epsilon: 9, delta: 0.1}").introduction()


def test_a_turn_is_paid_for_before_it_begins_and_a_damaged_record_allows_nothing(
    make: Make, folder: SiteFolder
) -> None:
    train(make())
    (folder / FILE).write_text("[{]")
    with pytest.raises(SiteRefusal, match="its record of what was spent cannot be read"):
        train(make(), round=2)


def test_it_counts_no_test_samples_and_sends_no_losses(make: Make) -> None:
    with pytest.raises(SiteRefusal, match="does not count its test samples"):
        train(make(), "evaluate")


def test_nobody_can_repeat_its_noise(make: Make) -> None:
    first, second = train(make()), train(make())
    assert not torch.equal(first["weights"]["linear2.bias"], second["weights"]["linear2.bias"])


def test_whatever_a_coordinator_says_the_site_refuses_what_is_not_private(
    make: Make, folder: SiteFolder, settings: Settings
) -> None:
    config = resolve(settings, {"data.class_names": ["0", "1", "2"], "algorithm.name": "fedlc"})
    sent = outgoing(config) | {"privacy": {"epsilon": 8.0, "delta": 1e-5}}
    with pytest.raises(SiteRefusal, match="fedlc is refused"):
        Host(folder, Invitation(sent, "0123abcd"))


def test_an_invitation_asks_for_no_counts_of_cells(
    make: Make, folder: SiteFolder, settings: Settings
) -> None:
    sent = outgoing(resolve(settings, {"data.class_names": ["0", "1", "2"], **PRIVATE}))
    for key, value in {"missing": "drop", "missing_values": ["M"]}.items():
        asked = {**sent, "data": {**sent["data"], key: value}}
        with pytest.raises(SiteRefusal, match=r"under privacy data\.missing.* is refused"):
            Host(folder, Invitation(asked, "0123abcd"))
    text = (folder / "site.yaml").read_text()
    (folder / "site.yaml").write_text(text.replace("source: npz", "source: table"))
    with pytest.raises(SiteRefusal, match=r"a table without data\.categories is refused"):
        make()
    with pytest.raises(SiteRefusal, match=r"a table without data\.indicators is refused"):
        make(data__categories={})


def test_samples_are_read_in_one_way_until_the_operator_says_otherwise(
    make: Make, folder: SiteFolder
) -> None:
    make().introduction()  # as its operator's own check does, which binds nobody
    make(data__train_fraction=0.7).agree()
    make(experiment="4567abcd", data__train_fraction=0.7, data__mean=[0.4]).agree()
    for host in (make(experiment="4567abcd"), make(data__train_fraction=0.7, data__seed=1)):
        with pytest.raises(SiteRefusal, match=r'the line "reading" out of privacy\.json'):
            host.introduction()
    lines = (folder / FILE).read_text().splitlines()
    (folder / FILE).write_text("\n".join(line for line in lines if '"reading"' not in line))
    train(make())
    assert len(SiteAccounts(folder / FILE).turns()) == 1


def test_an_experiment_may_not_promise_less_than_before(make: Make) -> None:
    make().agree()
    for worse in ({"privacy__epsilon": 8.5}, {"privacy__delta": 1e-4}):
        with pytest.raises(SiteRefusal, match=r"experiment promised . = .* before, not more"):
            make(**worse).introduction()
    with pytest.raises(SiteRefusal, match="the experiment promised ε = 8 before"):
        train(make(privacy__epsilon=None, privacy__noise=1.0))
    make(privacy__epsilon=7.0).agree()
    with pytest.raises(SiteRefusal, match="the experiment promised ε = 7 before"):
        train(make())
    make(experiment="4567abcd", privacy__epsilon=8.5).agree()


def test_a_site_keeps_so_many_promises_and_no_more(
    make: Make, folder: SiteFolder, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Outcome]
) -> None:
    monkeypatch.setattr(budget, "MOST_PROMISES", 3)
    for number in range(3):
        make(experiment=f"{number:08d}").agree()
    SentLog(folder / SENT).append({}, folder.key(), folder.accounts().told)
    for _ in range(2):  # before any sample is read
        with pytest.raises(SiteRefusal, match="keeps the promises of 3 experiments and takes no"):
            make(experiment="0000000a").agree()
    monkeypatch.setattr(budget, "MOST_PROMISES", 2)  # as if more had been kept before
    make(experiment="00000001", privacy__epsilon=7.0).agree()
    monkeypatch.setattr(budget, "MOST_PROMISES", 3)
    # What the sentence says helps: an ended experiment's promise goes, and what was spent stays.
    train(make(experiment="00000002"))
    content = json.loads((folder / "privacy.json").read_text())
    del content["promises"]["00000000"]
    (folder / "privacy.json").write_text(json.dumps(content))
    (folder / "orders.json").write_text("{}")  # as of a site that has obeyed
    (folder / SENT).rename(folder / "sent.of-last-year.jsonl")
    assert cli("site", "recover", folder.path).code == 0
    make(experiment="0000000a").agree()
    after = json.loads((folder / "privacy.json").read_text())
    assert after["turns"] == content["turns"]
    assert set(after["promises"]) == {"00000001", "00000002", "0000000a"}


def test_its_own_file_may_insist_on_a_unit(make: Make) -> None:
    with pytest.raises(SiteRefusal, match=r"protects another data\.unit than none"):
        make("{epsilon: 9, unit: patient}")
    with pytest.raises(SiteRefusal, match=r"protects another data\.unit than row"):
        make("{epsilon: 9, unit: patient}", data__unit="row")
    make("{epsilon: 9, unit: patient}", data__unit="patient")


def test_what_a_coordinator_settles_between_invitation_and_turn_is_no_other_reading() -> None:
    config = resolve({}, {"data.task": "regression", "model.name": "mlp", **PRIVATE})
    who = Members.of({"north": Introduction(8, 2, (3,))}, config)
    first, then = incoming(outgoing(config)), incoming(outgoing(who.settled(config)))
    assert then.data.class_names != first.data.class_names
    assert Terms.of(then, "a").reading == Terms.of(first, "a").reading


def test_a_record_of_turns_alone_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        '[{"experiment": "a", "noise": 4.0, "rate": 1.0, "steps": 2}]', encoding="utf-8"
    )
    accounts = SiteAccounts(tmp_path / FILE)
    accounts.charge("a", Mechanism(4.0, 1.0, 2), [])
    assert accounts.turns("a") == [Mechanism(4.0, 1.0, 2)] * 2
    (tmp_path / FILE).write_text('{"turns": [], "promises": 3}')
    with pytest.raises(SiteRefusal, match="cannot be read"):
        accounts.check(Terms("a", 8.0, 1e-5, "digest"))


def test_limits_are_of_one_experiment_or_of_all(tmp_path: Path) -> None:
    accounts, mechanism = SiteAccounts(tmp_path / FILE), Mechanism(4.0, 1.0, 2)
    accounts.charge("a", mechanism, [])
    accounts.charge("b", mechanism, [])
    assert accounts.epsilon(1e-5, "a") < accounts.epsilon(1e-5)
    assert accounts.epsilon(1e-5, "c") == 0
    accounts.charge("a", mechanism, [Limit(accounts.epsilon(1e-5, "a", (mechanism,)), 1e-5, "a")])


@pytest.mark.parametrize("noise", [1e-155, 1e-3, 1e12])
def test_a_turn_that_nobody_can_account_for_is_refused(tmp_path: Path, noise: float) -> None:
    accounts = SiteAccounts(tmp_path / FILE)
    with pytest.raises(SiteRefusal, match="another turn would exceed"):
        accounts.charge("a", Mechanism(noise, 0.5, 2), [Limit(8.0, 1e-5)])
    assert accounts.turns() == []


def test_site_check_says_what_is_promised_and_what_was_spent(
    make: Make, folder: SiteFolder, settings: Settings, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    import yaml

    train(make("{epsilon: 20}"))
    outcome = cli("site", "check", folder.path)
    assert outcome.code == 0
    assert "ε = 20 with δ = 1e-05 at most, and they have spent ε =" in " ".join(outcome.out.split())
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(settings))
    keys = {**PRIVATE, "data.class_names": "['0', '1', '2']"}
    sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    outcome = cli("site", "check", folder.path, file, *sets)
    words = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "in 2 rounds" in words
    assert "no counts of correct" in words
