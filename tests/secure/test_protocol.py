"""The pieces of secure sums: shares, messages between clients, masks, whole numbers."""

from __future__ import annotations

import contextlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from flushes import flushes
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkf.core.errors import FedkfError
from fedkf.secure import fixed, shamir
from fedkf.secure.once import only_once
from fedkf.secure.protocol import (
    Asked,
    Refusal,
    Roster,
    Stages,
    masked,
    revealed,
    sealed_shares,
    unmasked,
)
from fedkf.secure.secrets import RoundSecrets, Tampered, mask

SECRETS = {k: RoundSecrets(bytes([k]) * 32) for k in (3, 5, 8, 9)}
ROSTER = Roster(tuple(SECRETS), tuple(s.public() for s in SECRETS.values()), 4, 3)
EVERYBODY = list(SECRETS)
ASKED = Asked(EVERYBODY, b"message")
SEALED = {k: sealed_shares(k, secrets, ROSTER) for k, secrets in SECRETS.items()}


def received(me: int) -> dict[int, bytes]:
    return {k: sealed[me] for k, sealed in SEALED.items() if k != me}


# -- shares -------------------------------------------------------------------------------------


@given(st.binary(min_size=32, max_size=32), st.integers(0, 2**255))
@settings(max_examples=20)
def test_any_three_of_five_shares_give_the_secret_and_two_do_not(
    secret: bytes, random: int
) -> None:
    number = int.from_bytes(secret, "big")
    points: tuple[int, ...]
    shares = dict(enumerate(shamir.split([number, random + 1, 77], range(1, 6)), 1))
    for points in combinations(shares, 3):
        assert shamir.combine({x: shares[x] for x in points}) == secret
    for points in combinations(shares, 2):
        with contextlib.suppress(OverflowError):  # no 32 bytes at all
            assert shamir.combine({x: shares[x] for x in points}) != secret


# -- masks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("summed", [EVERYBODY, [3, 5, 9], [5, 8, 9]])
def test_masks_vanish_in_the_sum_of_those_who_stayed(summed: list[int]) -> None:
    vectors = {k: np.arange(6, dtype=np.uint64) * np.uint64(k) for k in SECRETS}
    hidden = {k: masked(k, SECRETS[k], ROSTER, ASKED, vectors[k]) for k in summed}
    stages = Stages(EVERYBODY, summed, True, ASKED.about)
    shares = {k: revealed(k, SECRETS[k], ROSTER, stages, received(k)) for k in summed}
    total = unmasked(ROSTER, stages, hidden.values(), shares)
    assert total.tolist() == [x * sum(summed) for x in range(6)]
    assert all(not np.array_equal(hidden[k], vectors[k]) for k in summed)


def test_a_mask_looks_random_and_differs_with_its_seed() -> None:
    words = mask(b"1" * 32, 4096, b"")
    bits = np.unpackbits(words.view(np.uint8)).mean()
    assert 0.49 < bits < 0.51
    assert len(np.unique(words)) == 4096
    assert not np.isin(words, mask(b"2" * 32, 4096, b"")).any()
    assert np.array_equal(words[:10], mask(b"1" * 32, 10, b""))


def test_another_message_has_other_masks_so_that_two_answers_cannot_be_subtracted() -> None:
    first, second = np.arange(6, dtype=np.uint64), np.arange(6, dtype=np.uint64)
    second[3:] = 0
    answers = [
        masked(3, SECRETS[3], ROSTER, Asked(EVERYBODY, about), vector)
        for about, vector in ((b"counted", first), (b"not counted", second))
    ]
    assert (answers[0] - answers[1] > 2**40).all()


def test_a_reordered_roster_has_other_shares_under_another_key() -> None:
    """Reordering moves the points of the shares, and a stream cipher hides one text only."""
    clients = tuple(reversed(ROSTER.clients))
    other = Roster(clients, tuple(reversed(ROSTER.keys)), 4, 3)
    own, theirs, text = SECRETS[3], ROSTER.key(5), bytes(99)
    streams = [own.box(theirs, r.digest()).encrypt(bytes(12), text, b"") for r in (ROSTER, other)]
    assert streams[0] != streams[1]
    first, second = (own.coefficients("sum", 3, r.digest()) for r in (ROSTER, other))
    assert first[0] == second[0]
    assert not set(first[1:]) & set(second[1:])


# -- what a client refuses ----------------------------------------------------------------------


def test_it_takes_part_in_no_sum_that_would_not_hide_it() -> None:
    vector, pair = np.zeros(2, dtype=np.uint64), [3, 5]
    with pytest.raises(Refusal, match="a sum of 2 clients would not hide it; 3 are needed"):
        masked(3, SECRETS[3], ROSTER, Asked(pair, b""), vector)
    with pytest.raises(Refusal, match="a sum of 2 clients"):
        revealed(3, SECRETS[3], ROSTER, Stages(EVERYBODY, pair), received(3))
    with pytest.raises(Refusal, match="a sum of 1 clients would not hide it"):
        masked(3, SECRETS[3], ROSTER, Asked([3, 3, 3], b""), vector)
    with pytest.raises(Refusal, match="not those of the roster, with itself"):
        masked(3, SECRETS[3], ROSTER, Asked([5, 8, 9], b""), vector)
    with pytest.raises(Refusal, match="that were not present"):
        revealed(3, SECRETS[3], ROSTER, Stages([3, 5, 8], [3, 5, 9]), received(3))
    with pytest.raises(Refusal, match="its own keys"):
        sealed_shares(3, SECRETS[5], ROSTER)
    twice = Roster((3, 5, 8), (*ROSTER.keys[:2], ROSTER.keys[0]), 4, 3)
    with pytest.raises(Refusal, match="the same keys"):
        sealed_shares(3, SECRETS[3], twice)


@pytest.mark.parametrize("changes", [True, False])
def test_it_reveals_own_masks_of_those_in_the_sum_and_keys_of_the_others(changes: bool) -> None:
    stages = Stages(EVERYBODY, [3, 5, 9], changes)
    shares = revealed(3, SECRETS[3], ROSTER, stages, received(3))
    own = ["sum", "change"] if changes else ["sum"]
    for client in EVERYBODY:
        secrets = own if client in stages.summed else ["pairing"]
        polynomials = [SECRETS[client].coefficients(name, 3, ROSTER.digest()) for name in secrets]
        points = [ROSTER.point(3)]
        expected = b"".join(shamir.split(p, points)[0] for p in polynomials)
        assert shares[client] == expected.ljust(66, b"\0")
    few = Stages([3, 5, 9], [3, 5, 9], changes)
    assert set(revealed(3, SECRETS[3], ROSTER, few, received(3))) == {3, 5, 9}


def test_the_second_half_stays_hidden_where_it_is_not_opened() -> None:
    vector, stages = np.arange(6, dtype=np.uint64), Stages(EVERYBODY, EVERYBODY, False, ASKED.about)
    hidden = [masked(k, SECRETS[k], ROSTER, ASKED, vector) for k in EVERYBODY]
    shares = {k: revealed(k, SECRETS[k], ROSTER, stages, received(k)) for k in EVERYBODY}
    assert unmasked(ROSTER, stages, hidden, shares).tolist() == [0, 4, 8, 0, 0, 0]
    opened = np.add.reduce(hidden)[3:]  # of the pairwise masks nothing is left, but of the own ones
    assert (opened > 2**40).all()


def test_shares_are_read_only_by_the_client_they_are_for_and_for_the_same_roster() -> None:
    stages = Stages(EVERYBODY, EVERYBODY)
    with pytest.raises(Tampered, match="the shares from client 5 are not what it sent"):
        revealed(3, SECRETS[3], ROSTER, stages, received(8) | {8: b""})
    other = Roster(ROSTER.clients, ROSTER.keys, 4, 4)
    with pytest.raises(Tampered):
        revealed(3, SECRETS[3], other, stages, received(3))


def test_wrong_shares_of_a_key_are_noticed() -> None:
    stages = Stages(EVERYBODY, [3, 5, 9])
    shares = {k: revealed(k, SECRETS[k], ROSTER, stages, received(k)) for k in stages.summed}
    shares[5][8] = bytes(33)
    with pytest.raises(FedkfError, match="shares of client 8's"):
        unmasked(ROSTER, stages, [np.zeros(2, dtype=np.uint64)] * 3, shares)


# -- whole numbers ------------------------------------------------------------------------------


def test_models_come_back_to_half_a_step_and_integers_are_left_out() -> None:
    weights = {"w": torch.tensor([[0.1, -3.0], [1e-9, 50.0]]), "n": torch.tensor(4)}
    whole = fixed.encode(weights, 7, 10)
    assert fixed.length(weights) == len(whole) == 4
    back = fixed.mean(fixed.decode(whole, weights), 7, weights)
    assert torch.equal(back["n"], weights["n"])
    assert back["w"].dtype == torch.float32
    assert float((back["w"] - weights["w"]).abs().max()) <= fixed.STEP / 7


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e10])
def test_what_does_not_fit_is_no_upload(value: float) -> None:
    with pytest.raises(fixed.TooLarge, match="too large for sums"):
        fixed.encode({"w": torch.tensor([0.0, value])}, 100, 10)


# -- what was answered --------------------------------------------------------------------------


def test_a_record_of_an_answer_is_on_the_disk_before_the_answer_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = flushes(monkeypatch)
    only_once(tmp_path, b"seed", "shares", b"message")
    (record,) = tmp_path.iterdir()
    assert flushed == [record, tmp_path]
    with pytest.raises(Refusal, match="another shares with this round's keys"):
        only_once(tmp_path, b"seed", "shares", b"other")
