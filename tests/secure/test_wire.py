"""Everything that crossed the wire is read: no single upload is in it, and none can be made of it.

The server is given its best try: it keeps all messages, rebuilds every secret of which it holds
enough shares of either sort, and takes from each upload every mask that those secrets give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab_secure import PHASES, Ended, Wire, divided, run

from fedkf.core.algorithm import Algorithm
from fedkf.core.client import Client
from fedkf.core.errors import FedkfError
from fedkf.core.payload import HIDING, Payload
from fedkf.secure import fixed, shamir, wire
from fedkf.secure.protocol import Asked, Roster, add_pair, masked, own_masks
from fedkf.secure.secrets import SHARED, RoundSecrets, Words, pair_seed, public_half
from fedkf.secure.sums import SecureSums

LOST = {"secure_keys": [0], "secure_shares": [1], "secure_update": [2], "secure_unmask": [3]}
KEYS: dict[str, Any] = dict(transport__secure=True, federation__rounds=1)


def roster_of(heard: Wire) -> Roster:
    return wire.read_roster(heard.down("secure_unmask"), 0.6)


def secrets_known(heard: Wire) -> dict[int, list[bytes]]:
    """Every secret that the revealed shares give, by client."""
    roster = roster_of(heard)
    tables = {
        client: wire.by_client(payload["revealed"]["shares"], roster)
        for client, payload in heard.up("secure_unmask").items()
    }
    found: dict[int, list[bytes]] = {}
    for client in roster.clients:
        for place in (slice(0, shamir.WIDTH), slice(shamir.WIDTH, None)):
            shares = {roster.point(k): table[client][place] for k, table in tables.items()}
            some = dict(list(shares.items())[: roster.threshold])
            if len(some) == roster.threshold and any(map(any, some.values())):
                found.setdefault(client, []).append(shamir.combine(some))
    return found


def bared(heard: Wire) -> dict[int, Words]:
    """Every upload without the masks that the server can compute."""
    roster, known = roster_of(heard), secrets_known(heard)
    present = wire.marked(heard.down("secure_update"), "present", roster)
    about, best = wire.digest(heard.down("secure_update")), {}
    for client, payload in heard.up("secure_update").items():
        vector = wire.from_words(payload["masked"]["vector"]).copy()
        own = dict(zip(SHARED, known.get(client, []), strict=False))
        vector -= own_masks(own, len(vector), about)
        for other in present:
            for secret in known.get(other, []):
                if other != client and public_half(secret) == roster.key(other)[32:]:
                    seed = pair_seed(secret, roster.key(client))
                    add_pair(vector, seed, other < client, about)
        best[client] = vector
    return best


def readable(vector: Words, size: int) -> bool:
    """Whether half of a vector is a client's: its size, or numbers far below those of a mask."""
    halves = np.split(vector.view(np.int64), 2)
    small = (float(np.abs(half[1:].astype(float)).mean()) < 2.0**50 for half in halves)
    return int(vector[0]) == size or any(small)


def single_uploads(heard: Wire, sizes: dict[int, int]) -> list[int]:
    """The clients whose upload, as sent or without all masks that can be computed, is readable."""
    sent = {
        client: wire.from_words(payload["masked"]["vector"])
        for client, payload in heard.up("secure_update").items()
    }
    tries = [*sent.items(), *bared(heard).items()]
    return sorted({client for client, vector in tries if readable(vector, sizes[client])})


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return run(tmp_path_factory.mktemp("wire") / "run", "fedkf", LOST, **KEYS)


@pytest.fixture(scope="module")
def sizes() -> dict[int, int]:
    return dict(divided()[1].sizes)


def test_no_single_upload_is_on_the_wire_or_can_be_made_of_what_is(
    ended: Ended, sizes: dict[int, int]
) -> None:
    assert len(ended.wire.up("secure_update")) == 7
    assert single_uploads(ended.wire, sizes) == []


def test_the_server_can_take_off_what_the_protocol_lets_it_and_has_the_sum(
    ended: Ended, sizes: dict[int, int]
) -> None:
    """Its best try is a real one: what is left on the uploads vanishes in their sum."""
    total = np.add.reduce(list(bared(ended.wire).values()))
    summed = ended.wire.up("secure_update")
    assert int(total[0]) == sum(sizes[client] for client in summed)
    assert readable(total, int(total[0]))


def test_nothing_leaves_a_client_in_training_but_what_hides_it(ended: Ended) -> None:
    kinds = {
        kind
        for step, client, payload in ended.wire.messages
        if client >= 0 and step in PHASES
        for kind in payload.kinds.values()
    }
    assert kinds == set(HIDING)
    assert {step for step, *_ in ended.wire.messages} == {*PHASES, "evaluate"}


def test_nobody_reveals_both_secrets_of_a_client(ended: Ended) -> None:
    """Of those in the sum the shares give the own mask, of the others the pairwise ones."""
    roster, known = roster_of(ended.wire), secrets_known(ended.wire)
    summed = set(ended.wire.up("secure_update"))
    for client, found in known.items():
        pairing = [secret for secret in found if public_half(secret) == roster.key(client)[32:]]
        assert bool(pairing) == (client in {2})
        assert client not in summed or not pairing


def test_what_is_sealed_for_one_client_holds_no_share_in_clear(ended: Ended) -> None:
    roster = roster_of(ended.wire)
    revealed = {
        row
        for payload in ended.wire.up("secure_unmask").values()
        for row in wire.by_client(payload["revealed"]["shares"], roster).values()
        if any(row)
    }
    sealed = b"".join(
        wire.content(payload["shares"]["sealed"])
        for payload in ended.wire.up("secure_shares").values()
    )
    assert revealed
    assert not any(share in sealed for share in revealed)


# -- the same reading finds uploads where the protocol is broken --------------------------------


def broken(algorithm: Algorithm, **methods: object) -> Algorithm:
    """The algorithm with some methods replaced."""
    kind = type("Broken", (type(algorithm),), methods)
    made: Algorithm = object.__new__(kind)
    made.__dict__.update(algorithm.__dict__)
    return made


def no_masks(self: object, *given: Words) -> Words:
    return given[-1]


def own_mask_only(
    self: object, me: int, secrets: RoundSecrets, roster: Roster, asked: Asked, vector: Words
) -> Words:
    return vector + own_masks(secrets.shared, len(vector), asked.about)


def another_size(
    self: object, me: int, secrets: RoundSecrets, roster: Roster, asked: Asked, vector: Words
) -> Words:
    vector[len(vector) // 2] += np.uint64(me == 4)
    return masked(me, secrets, roster, asked, vector)


def test_uploads_without_masks_are_found_and_do_not_add_up(
    tmp_path: Path, sizes: dict[int, int]
) -> None:
    heard = Wire()
    with pytest.raises(FedkfError, match="the masks do not vanish in the sum"):
        run(tmp_path, heard=heard, change=lambda a: broken(a, hide=no_masks), **KEYS)
    assert single_uploads(heard, sizes) == list(range(10))


def test_uploads_with_the_own_mask_alone_are_found_though_they_add_up(
    tmp_path: Path, sizes: dict[int, int]
) -> None:
    ended = run(tmp_path, change=lambda a: broken(a, hide=own_mask_only), **KEYS)
    assert single_uploads(ended.wire, sizes) == list(range(10))


def test_a_wrong_size_in_the_half_of_t1_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(FedkfError, match="the masks do not vanish in the sum"):
        run(tmp_path, change=lambda a: broken(a, hide=another_size), **KEYS)


@pytest.mark.parametrize(
    ("step", "group", "entry"),
    [("secure_shares", "shares", "sealed"), ("secure_unmask", "revealed", "shares")],
)
@pytest.mark.parametrize("kind", ["weights", "sealed_shares"])
@pytest.mark.parametrize("value", [7, torch.zeros(3)])
def test_whoever_sends_no_table_is_left_out_and_named(
    step: str, group: str, entry: str, kind: str, value: int | torch.Tensor, tmp_path: Path
) -> None:
    def lie(self: SecureSums, client: Client, down: Payload) -> Payload:
        if client.id == 4:
            return Payload().add(group, {entry: value}, kind)
        return getattr(SecureSums, step)(self, client, down)  # type: ignore[no-any-return]

    ended = run(tmp_path, change=lambda a: broken(a, **{step: lie}), **KEYS)
    assert [[r["client"] for r in line["refused"]] for line in ended.rounds] == [[4]]


def test_the_numbers_of_a_model_are_those_that_the_reading_looks_for(sizes: dict[int, int]) -> None:
    whole = fixed.encode({"w": torch.linspace(-2, 2, 200)}, sizes[0], 10)
    for size in (sizes[0], 7):
        assert readable(np.concatenate([[size], whole, [0], whole]).view(np.uint64), sizes[0])
