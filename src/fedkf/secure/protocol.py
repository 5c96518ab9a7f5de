"""The protocol's arithmetic: what a client sends in each phase, and what the server makes of it.

Every two clients have a mask in common, which one adds and the other subtracts, and each adds masks
of its own. The pairwise ones vanish in the sum; of a client that is lost before its upload the
others reveal shares of the key behind its pairwise masks, of every other client shares of the seed
of its own. Nobody reveals both of one client, for both together would bare its upload. An upload
has two halves, n·w and its change since T1 counted it last; the second may stay closed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkf.core.errors import FedkfError
from fedkf.secure import shamir
from fedkf.secure.secrets import (
    SHARED,
    RoundSecrets,
    Tampered,
    Words,
    mask,
    pair_seed,
    public_half,
    seal,
    unseal,
)

LEAST = 3
"""Of two clients in a sum, each could subtract its own part and have the other's."""
PUBLIC = 64
"""Bytes of a client's public keys."""
SEALED = len(SHARED) * shamir.WIDTH + 16
"""Bytes of what one client seals for another: a share of each secret, and a tag."""
REVEALED = 2 * shamir.WIDTH
"""Bytes of what one client reveals of another: shares of two own masks or, of a key, of one."""


class Refusal(FedkfError):
    """A client was asked for something that could bare an upload."""


def needed(asked: int, share: float) -> int:
    """How many clients of those asked must stay to the end, and how many shares undo a mask.

    >>> needed(10, 0.6), needed(3, 0.6), needed(5, 1)
    (6, 2, 5)
    """
    return max(2, math.ceil(round(share * asked, 9)))


@dataclass(frozen=True)
class Roster:
    """Who sent public keys for a round, of how many asked, and how many shares undo a mask."""

    clients: tuple[int, ...]
    keys: tuple[bytes, ...]
    asked: int
    threshold: int

    def digest(self) -> bytes:
        """Sealed messages hold for this very roster: clients that saw another cannot read them."""
        text = repr((self.clients, self.threshold)).encode()
        return hashlib.sha256(text + b"".join(self.keys)).digest()

    def key(self, client: int) -> bytes:
        return self.keys[self.clients.index(client)]

    def point(self, client: int) -> int:
        """Where the client's shares are of the polynomials."""
        return self.clients.index(client) + 1

    def points(self) -> range:
        return range(1, len(self.clients) + 1)


@dataclass(frozen=True)
class Stages:
    """Who was there before the uploads, whose uploads are in the sum, and what of it is opened."""

    present: Sequence[int]
    summed: Sequence[int]
    changes: bool = True
    """Whether the second halves are opened, too."""
    about: bytes = b""
    """Of the message that asked for the uploads, as in `Asked`."""


@dataclass(frozen=True)
class Asked:
    """Among whom a client is asked for its upload, and a digest of the whole message that asks."""

    present: Sequence[int]
    about: bytes


# -- on a client --------------------------------------------------------------------------------


def check(me: int, secrets: RoundSecrets, roster: Roster, *groups: Sequence[int]) -> None:
    """Refuse a roster, or some of it, among which this client would not be hidden."""
    least = max(LEAST, roster.threshold)
    if me not in roster.clients or roster.key(me) != secrets.public():
        raise Refusal("its own keys of this round are not on the roster")
    if len(set(roster.keys)) < len(roster.keys):
        raise Refusal("two clients of the roster have the same keys")
    for group in (roster.clients, *groups):
        if (count := len(set(group))) < least:
            raise Refusal(f"a sum of {count} clients would not hide it; {least} are needed")
        if me not in group or not set(group) <= set(roster.clients):
            raise Refusal("the clients named are not those of the roster, with itself")


def sealed_shares(me: int, secrets: RoundSecrets, roster: Roster) -> dict[int, bytes]:
    """For each other client a share of every secret, which only that one can read."""
    check(me, secrets, roster)
    about, sealed = roster.digest(), {}
    polynomials = [secrets.coefficients(which, roster.threshold, about) for which in SHARED]
    for peer in roster.clients:
        if peer != me:
            shares = [shamir.split(p, [roster.point(peer)])[0] for p in polynomials]
            box = secrets.box(roster.key(peer), about)
            sealed[peer] = seal(box, (me, peer), b"".join(shares), about)
    return sealed


def masked(me: int, secrets: RoundSecrets, roster: Roster, asked: Asked, vector: Words) -> Words:
    """The client's part of the sum behind its own masks and one for each client that is present."""
    check(me, secrets, roster, asked.present)
    hidden = vector + own_masks(secrets.shared, len(vector), asked.about)
    for peer in asked.present:
        if peer != me:
            seed = pair_seed(secrets.pairing, roster.key(peer))
            add_pair(hidden, seed, me < peer, asked.about)
    return hidden


def own_masks(seeds: Mapping[str, bytes], length: int, about: bytes) -> Words:
    """The masks of both halves of an upload; none for a half whose seed is not there."""
    half = np.zeros(length // 2, dtype=np.uint64)
    own = (mask(seeds[w], len(half), about) if w in seeds else half for w in SHARED[:2])
    return np.concatenate(list(own))


def add_pair(vector: Words, seed: bytes, add: bool, about: bytes) -> None:
    """The mask of two clients, which the one with the lower id adds and the other subtracts."""
    if add:
        vector += mask(seed, len(vector), about)
    else:
        vector -= mask(seed, len(vector), about)


def revealed(
    me: int, secrets: RoundSecrets, roster: Roster, stages: Stages, sealed: Mapping[int, bytes]
) -> dict[int, bytes]:
    """What of the shares it holds of every client that was present: never all of one client's.

    Of those in the sum it is the own masks', of the others the pairwise masks'.
    """
    check(me, secrets, roster, stages.present, stages.summed)
    if not set(stages.summed) <= set(stages.present):
        raise Refusal("the sum has clients in it that were not present")
    about, shares = roster.digest(), {}
    for peer in stages.present:
        if peer == me:
            polynomials = [secrets.coefficients(w, roster.threshold, about) for w in SHARED]
            every = b"".join(shamir.split(p, [roster.point(me)])[0] for p in polynomials)
        else:
            every = unseal(secrets.box(roster.key(peer), about), (peer, me), sealed[peer], about)
        own, pairing = every[:REVEALED], every[REVEALED:]
        shown = own if stages.changes else own[: shamir.WIDTH]
        shares[peer] = (shown if peer in stages.summed else pairing).ljust(REVEALED, b"\0")
    return shares


# -- on the server ------------------------------------------------------------------------------


def unmasked(
    roster: Roster,
    stages: Stages,
    uploads: Iterable[Words],
    shares: Mapping[int, Mapping[int, bytes]],
) -> Words:
    """The sum of the clients' parts, without any mask; `shares` are by who revealed them.

    The second half is nothing but zeros if it was not opened.
    """
    total: Words = np.add.reduce(list(uploads))
    for client in stages.present:
        if client in stages.summed:
            opened = SHARED[: 2 if stages.changes else 1]
            seeds = {w: rebuilt(client, roster, shares, k) for k, w in enumerate(opened)}
            total -= own_masks(seeds, len(total), stages.about)
            continue
        secret = rebuilt(client, roster, shares)
        if public_half(secret) != roster.key(client)[32:]:
            raise Tampered(f"the shares of client {client}'s key do not belong together")
        for other in stages.summed:
            seed = pair_seed(secret, roster.key(other))
            add_pair(total, seed, client < other, stages.about)
    if not stages.changes:
        total[len(total) // 2 :] = 0
    return total


def rebuilt(
    client: int, roster: Roster, shares: Mapping[int, Mapping[int, bytes]], number: int = 0
) -> bytes:
    """A secret of a client whose shares were revealed, from as many as are needed."""
    place = slice(number * shamir.WIDTH, (number + 1) * shamir.WIDTH)
    some = sorted(shares)[: roster.threshold]
    try:
        return shamir.combine({roster.point(k): shares[k][client][place] for k in some})
    except OverflowError:
        raise Tampered(f"the shares of client {client}'s mask do not belong together") from None
