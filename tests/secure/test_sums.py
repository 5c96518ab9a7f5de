"""Secure sums: the models of plain runs, whoever is lost, and nothing else on the wire."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_secure import PHASES, Ended, Lost, apart, run

from fedkf.core.algorithm import Algorithm
from fedkf.core.client import Client
from fedkf.core.payload import Payload
from fedkf.core.server import TooFewUploads
from fedkf.secure import wire
from fedkf.secure.secrets import SEED, RoundSecrets
from fedkf.secure.sums import SecureSums

SECURE: dict[str, Any] = {"transport__secure": True}
ALGORITHMS = ("fedavg", "fedkf-", "fedkf")


def missing(lost: Lost) -> tuple[int, ...]:
    """Who is not in a plain round when those clients are lost in the phases."""
    return tuple(k for phase, gone in lost.items() if phase != "secure_unmask" for k in gone)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Lost], Ended]:
    """The plain run of an algorithm without the clients that are lost; each is run once."""

    @cache
    def ended(algorithm: str, gone: tuple[int, ...]) -> Ended:
        return run(tmp_path_factory.mktemp("plain"), algorithm, {"local_update": gone})

    return lambda algorithm, lost: ended(algorithm, missing(lost))


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_of_ten_are_lost_in_any_phase_and_both_readouts_are_those_of_plain_runs(
    algorithm: str, phase: str, plain: Callable[[str, Lost], Ended], tmp_path: Path
) -> None:
    lost = {phase: [2, 7]}
    secure = run(tmp_path, algorithm, lost, **SECURE)
    assert apart(plain(algorithm, lost), secure) <= 1e-5
    for record in secure.rounds:
        assert [r["client"] for r in record["refused"]] == [2, 7]
        assert all("it went away" in r["reason"] for r in record["refused"])


def test_two_are_lost_in_each_phase_of_the_same_rounds(
    plain: Callable[[str, Lost], Ended], tmp_path: Path
) -> None:
    lost = dict(zip(PHASES, ([0, 1], [2, 3], [4, 5], [6, 7]), strict=True))
    secure = run(tmp_path, "fedkf", lost, transport__threshold=0.2, **SECURE)
    assert apart(plain("fedkf", lost), secure) <= 1e-5


def test_under_privacy_the_sums_are_those_of_the_same_noisy_models(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    keys: dict[str, Any] = {"privacy__epsilon": 8.0}
    lost = {"secure_update": [2, 7]}
    plain = run(tmp_path / "plain", "fedkf", {"local_update": [2, 7]}, **keys)
    secure = run(tmp_path / "secure", "fedkf", lost, **keys, **SECURE)
    assert apart(plain, secure) <= 1e-5
    assert [r["privacy"] for r in secure.rounds] == [r["privacy"] for r in plain.rounds]
    assert secure.rounds[0]["privacy"]["clients"] == list(range(10))  # who was lost has paid, too


def test_both_sides_know_the_masks_of_a_message_that_is_quantised(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"transport__downlink": "delta8"}
    plain = run(tmp_path / "plain", "fedkf", **keys)
    assert apart(plain, run(tmp_path / "secure", "fedkf", **keys, **SECURE)) <= 1e-5


@pytest.mark.parametrize("scope", ["all", "seen"])
def test_t1_counts_a_lost_client_with_its_last_model_and_a_new_one_from_its_first(
    scope: str, tmp_path: Path
) -> None:
    keys: dict[str, Any] = dict(
        federation__rounds=4,
        federation__fraction=0.5,
        overall__scope=scope,
        transport__threshold=0.4,
        transport__exact=True,
    )
    lost = {"secure_update in 2": [1, 3], "local_update in 2": [1, 3]}
    plain = run(tmp_path / "plain", "fedavg", lost, **keys)
    secure = run(tmp_path / "secure", "fedavg", lost, **keys, **SECURE)
    assert apart(plain, secure) <= 1e-5
    assert [r["client"] for r in secure.rounds[1]["refused"]] == [1, 3]
    again = {k for record in secure.rounds[:2] for k in record["active"]}
    assert again != set(range(10))


@pytest.mark.parametrize("phase", PHASES)
def test_with_fewer_than_the_threshold_a_round_ends_with_a_sentence(
    phase: str, tmp_path: Path
) -> None:
    with pytest.raises(TooFewUploads, match=r"5 clients .*, and 6 are needed .*threshold"):
        run(tmp_path, "fedavg", {phase: [0, 2, 4, 6, 8]}, **SECURE)


@pytest.mark.parametrize("shape", ["right", "other"])
def test_a_model_beside_the_keys_is_refused_and_its_client_named(
    shape: str, plain: Callable[[str, Lost], Ended], tmp_path: Path
) -> None:
    """It would have a slot of its own beside the sum, or end the run."""

    def poisoned(made: Algorithm) -> Algorithm:
        class Poisoned(type(made)):  # type: ignore[misc]
            def secure_keys(self, client: Client, down: Payload) -> Payload:
                upload: Payload = super().secure_keys(client, down)
                like = client.task.initial_weights if shape == "right" else {"z": torch.zeros(1)}
                lie = {name: torch.full_like(t, 1e6) for name, t in like.items()}
                return upload if client.id != 3 else upload.add("weights", lie)

        object.__setattr__(made, "__class__", Poisoned)
        return made

    secure = run(tmp_path, "fedavg", change=poisoned, **SECURE)
    assert apart(plain("fedavg", {"local_update": [3]}), secure) <= 1e-5
    for record in secure.rounds:
        assert [r["client"] for r in record["refused"]] == [3]
        assert "it holds 'weights'" in record["refused"][0]["reason"]


# -- what several sums give away together -------------------------------------------------------


def test_a_client_that_is_missing_once_is_not_bared_by_two_sums(tmp_path: Path) -> None:
    """Ten clients, then nine: T1 of both rounds would be the tenth's upload, so it waits."""
    lost = {"secure_keys in 2": [4]}
    secure = run(tmp_path / "s", "fedavg", lost, **SECURE)
    plain = run(tmp_path / "p", "fedavg", {"local_update in 2": [4]})
    assert "uncounted" not in secure.rounds[0]
    assert secure.rounds[1]["uncounted"] == [0]  # its model of round 1 hides that of client 4
    assert (
        float((plain.models["aca"]["1.weight"] - secure.models["aca"]["1.weight"]).abs().max())
        <= 1e-5
    )
    assert apart(plain, secure) > 1e-4  # OCA has the earlier models of those left out
    exact = run(tmp_path / "e", "fedavg", lost, transport__exact=True, **SECURE)
    assert "uncounted" not in exact.rounds[1]
    assert apart(plain, exact) <= 1e-5


def test_who_is_lost_after_training_leaves_t1_as_it_was(tmp_path: Path) -> None:
    lost = {"secure_update in 2": [4]}
    once = run(tmp_path / "1", "fedavg", federation__rounds=1, **SECURE)
    twice = run(tmp_path / "2", "fedavg", lost, **SECURE)
    assert twice.rounds[1]["uncounted"] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert all(bool((twice.models["oca"][n] == t).all()) for n, t in once.models["oca"].items())


def test_what_was_left_out_is_made_up_for_later(tmp_path: Path) -> None:
    """A round in which all are there again ends with T1 of the newest models."""
    plain = run(tmp_path / "p", "fedavg", {"local_update in 2": [4]}, federation__rounds=3)
    for phase in ("secure_keys in 2", "secure_update in 2"):
        folder = tmp_path / phase.split()[0]
        secure = run(folder, "fedavg", {phase: [4]}, federation__rounds=3, **SECURE)
        assert apart(plain, secure) <= 1e-5
        assert "uncounted" not in secure.rounds[2]


@pytest.mark.parametrize(
    ("phase", "group", "entry"),
    [("secure_shares", "shares", "sealed"), ("secure_unmask", "revealed", "shares")],
)
def test_a_table_without_a_row_for_everybody_is_refused_and_named(
    phase: str,
    group: str,
    entry: str,
    plain: Callable[[str, Lost], Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = getattr(SecureSums, phase)

    def short(self: SecureSums, client: Client, down: Payload) -> Payload:
        upload: Payload = honest(self, client, down)
        if client.id == 2:
            upload[group][entry] = upload[group][entry][:-1]
        return upload

    monkeypatch.setattr(SecureSums, phase, short)
    secure = run(tmp_path, "fedavg", **SECURE)
    assert apart(plain("fedavg", {phase: [2]}), secure) <= 1e-5
    for record in secure.rounds:
        assert [r["client"] for r in record["refused"]] == [2]
        assert f"its table of {group} has 9 rows, not the 10" in record["refused"][0]["reason"]


def sending(public: bytes, *clients: int) -> Callable[..., Payload]:
    """Phase 1, where some clients send other keys than their own."""
    honest = SecureSums.secure_keys

    def lie(self: SecureSums, client: Client, down: Payload) -> Payload:
        upload = honest(self, client, down)
        if client.id in clients:
            upload["keys"]["public"] = wire.tensor(public)
        return upload

    return lie


@pytest.mark.parametrize("place", [0, SEED])
@pytest.mark.parametrize("point", [bytes(SEED), b"\1" + bytes(SEED - 1)])
def test_a_key_with_which_nobody_can_agree_on_a_secret_is_refused_and_named(
    place: int,
    point: bytes,
    plain: Callable[[str, Lost], Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = bytearray(RoundSecrets(b"a seed").public())
    key[place : place + SEED] = point
    monkeypatch.setattr(SecureSums, "secure_keys", sending(bytes(key), 2))
    secure = run(tmp_path, "fedavg", **SECURE)
    assert apart(plain("fedavg", {"secure_keys": [2]}), secure) <= 1e-5
    for record in secure.rounds:
        assert record["refused"] == [{"client": 2, "reason": "its public keys are none"}]


def test_clients_with_the_same_keys_are_refused_and_named(
    plain: Callable[[str, Lost], Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = RoundSecrets(b"a seed").public()
    monkeypatch.setattr(SecureSums, "secure_keys", sending(key, 2, 7))
    secure = run(tmp_path, "fedavg", **SECURE)
    assert apart(plain("fedavg", {"secure_keys": [2, 7]}), secure) <= 1e-5
    for record in secure.rounds:
        assert [r["client"] for r in record["refused"]] == [2, 7]
        assert {r["reason"] for r in record["refused"]} == {
            "its public keys are those of another client"
        }
