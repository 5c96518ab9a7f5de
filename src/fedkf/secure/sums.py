"""SecureSums: an algorithm that needs nothing but sums, so that the server sees nothing else.

A round has four exchanges in the place of one: public keys, shares of secrets, the masked upload
after training, shares that take the masks from the sum. T1 needs no slots: what a client sends for
it is the difference from what was accepted of it last, which is part of its private state.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch

from fedkf.core.algorithm import Algorithm, State
from fedkf.core.errors import FedkfError
from fedkf.core.federation import OVERALL
from fedkf.core.payload import HIDING, Payload
from fedkf.core.random import GlobalStream
from fedkf.core.records import Refused
from fedkf.core.server import TooFewUploads, Upload
from fedkf.secure import fixed, wire
from fedkf.secure.exposure import KEPT, Line, after, bare, countable
from fedkf.secure.once import only_once
from fedkf.secure.protocol import (
    LEAST,
    REVEALED,
    SEALED,
    Asked,
    Roster,
    Stages,
    masked,
    needed,
    revealed,
    sealed_shares,
    unmasked,
)
from fedkf.secure.secrets import SEED, RoundSecrets

if TYPE_CHECKING:
    from fedkf.core.client import Client
    from fedkf.core.server import Server
    from fedkf.secure.secrets import Words

COUNTED, NEWEST, ROUND = "secure counted", "secure newest", "secure round"
"""Groups of a client's private state: the upload that T1 counts, the newest one, which it may count
by now, and this round's seed."""
LINES = "secure lines"
"""The group of the server's state that says which uploads are in which sums (`exposure`)."""


class SecureSums(Algorithm):
    """Stands before an algorithm's own class (`secured`): the phases, on both sides."""

    discloses: ClassVar[tuple[str, ...]] = HIDING
    client_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "secure_keys": ("keys:public_keys/public",),
        "secure_shares": ("shares:sealed_shares/sealed",),
        "secure_update": ("masked:masked_weights/vector",),
        "secure_unmask": ("revealed:mask_shares/shares",),
        "evaluate": ("monitoring",),
    }
    without_samples: ClassVar[tuple[str, ...]] = ("secure_keys", "secure_shares", "secure_unmask")
    share: float = 0.6
    """How many of the clients asked must stay, as a share: `transport.threshold`."""
    exact: bool = False
    """Whether T1 counts everybody even where that bares an upload: `transport.exact`."""
    deployed: bool = False
    """Whether keys come from this machine's own randomness rather than from the run's streams."""
    answers: Path | None = None
    """Where a site of its own records what it has answered under which keys (`once`)."""

    # -- on a client ----------------------------------------------------------------------------

    def secure_keys(self, client: Client, down: Payload) -> Payload:
        """Phase 1: keys for this round alone."""
        stream = client.task.streams.numpy_generator("secure", client.round, client.id)
        seed = os.urandom(SEED) if self.deployed else stream.bytes(SEED)
        client.state = with_groups(client.state, {ROUND: {"seed": wire.tensor(seed)}})
        public = {"public": wire.tensor(RoundSecrets(seed).public())}
        return Payload().add("keys", public, "public_keys")

    def secure_shares(self, client: Client, down: Payload) -> Payload:
        """Phase 2: shares of both secrets for every other client."""
        roster = wire.read_roster(down, self.share)
        secrets = secrets_of(client)
        self.remember(secrets, "secure_shares", wire.digest(down))
        sealed = sealed_shares(client.id, secrets, roster)
        return Payload().add("shares", {"sealed": wire.rows(sealed, roster)}, "sealed_shares")

    def secure_update(self, client: Client, down: Payload) -> Payload:
        """Phase 3: the algorithm's local training, and its result behind masks."""
        roster, secrets = wire.read_roster(down, self.share), secrets_of(client)
        asked = Asked(wire.marked(down, "present", roster), wire.digest(down))
        self.remember(secrets, "secure_update", asked.about + began_from(client), client)
        before, since = client.state, wire.of_client(down, "since", client.id, roster)
        client.state = without_groups(before)
        shown = {kind for kind in down.kinds.values() if kind not in HIDING}
        streams, device = client.task.streams, client.task.device
        seed = streams.integer("global local_update", client.round, client.id)
        with GlobalStream(seed, device).active():  # dropout draws what it would in a plain run
            weights = self.local_update(client, down.of_kinds(shown))["weights"]
        whole = fixed.encode(weights, client.size, int(down.number("roster", "clients")))
        last = last_counted(before, since)
        client.state = with_groups(client.state, {ROUND: {"seed": wire.tensor(secrets.seed)}})
        keep(client, NEWEST, whole, client.round)
        if last is not None:
            keep(client, COUNTED, last, since)
        change, new = whole - (0 if last is None else last), client.size * (last is None)
        if not wire.of_client(down, "counted", client.id, roster):
            change, new = np.zeros_like(whole), 0
        parts = [client.size], whole, [new], change
        vector = np.concatenate([np.asarray(p, dtype=np.int64) for p in parts]).view(np.uint64)
        hidden = self.hide(client.id, secrets, roster, asked, vector)
        return Payload().add("masked", {"vector": wire.words(hidden)}, "masked_weights")

    def hide(
        self, me: int, secrets: RoundSecrets, roster: Roster, asked: Asked, vector: Words
    ) -> Words:
        return masked(me, secrets, roster, asked, vector)

    def secure_unmask(self, client: Client, down: Payload) -> Payload:
        """Phase 4: what takes the masks from the sum, and from no single upload."""
        roster = wire.read_roster(down, self.share)
        present, summed = (wire.marked(down, name, roster) for name in ("present", "summed"))
        stages = Stages(present, summed, bool(down.number("sealed", "changes")))
        sealed = wire.column(down["sealed"]["shares"], client.id, roster)
        secrets = secrets_of(client)
        shares = revealed(client.id, secrets, roster, stages, sealed)
        self.remember(secrets, "secure_unmask", wire.digest(down))
        return Payload().add("revealed", {"shares": wire.rows(shares, roster)}, "mask_shares")

    def remember(
        self, secrets: RoundSecrets, step: str, message: bytes, trains: Client | None = None
    ) -> None:
        """At a site: answer one message with each round's keys, however often it is sent.

        A client that trains with noise never ends the same: it answers once.
        """
        if self.answers is not None:
            again = trains is None or trains.private is None
            only_once(self.answers, secrets.seed, step, message, again)

    # -- on the server --------------------------------------------------------------------------

    def round(self, server: Server, state: State) -> State:
        asked = list(server.active)
        if len(asked) < LEAST:
            why = f"a sum of {len(asked)} would not hide a client; {LEAST} are needed"
            server.refused += [Refused(client, why) for client in asked]
            return state
        lines, own = lines_of(state), without_groups(state)
        assert own is not None
        threshold = needed(len(asked), self.share)
        hello = Payload().add("roster", {"asked": len(asked)}, "public_keys")
        keys = own_keys(server, server.exchange("secure_keys", asked, hello))
        require(server, "sent keys", keys, threshold)
        roster = wire.make_roster(keys, len(asked), threshold)
        shares = server.exchange("secure_shares", roster.clients, wire.with_roster(roster, server))
        shares = of_roster(server, shares, ("shares", "sealed"), roster)
        require(server, "shared their secrets", shares, threshold)
        present = [upload.client for upload in shares]
        counted = present if self.exact else countable(lines, server.round, present)
        since = {client: made for client, made, taken in lines if taken == KEPT}
        down = wire.with_roster(
            roster, server, self.broadcast(server, own), present=present, counted=counted
        )
        down["roster"]["since"] = torch.tensor([since.get(k, 0) for k in roster.clients])
        uploads = server.exchange("secure_update", present, down)
        require(server, "sent an upload", uploads, threshold)
        summed = [upload.client for upload in uploads]
        counted = [client for client in counted if client in summed]
        if not self.exact and bare(after(lines, server.round, counted, summed)):
            counted = []  # for some were lost meanwhile
        server.uncounted = [client for client in summed if client not in counted]
        codec = server.channel.codec
        about = wire.digest(codec.decode_down(codec.encode_down(down)))
        stages = Stages(present, summed, bool(counted), about)
        total = self.opened(server, roster, stages, (shares, uploads))
        check_sizes(server, total, summed, [k for k in counted if k not in since])
        lines = after(lines, server.round, counted, summed)
        return self.add_up(server, own, total).add(LINES, {"table": torch.tensor(lines)})

    def opened(
        self,
        server: Server,
        roster: Roster,
        stages: Stages,
        sent: tuple[Sequence[Upload], Sequence[Upload]],
    ) -> Words:
        """Phase 4, as the server sees it: the sum of the uploads. `sent` are shares and uploads."""
        down = wire.with_roster(roster, server, present=stages.present, summed=stages.summed)
        sealed = torch.stack([upload["shares"]["sealed"] for upload in sent[0]])
        table = wire.spread(sealed, stages.present, roster)
        down.add("sealed", {"shares": table, "changes": int(stages.changes)}, "sealed_shares")
        count = len(server.refused)
        answers = server.exchange("secure_unmask", stages.summed, down)
        fit = of_roster(server, answers, ("revealed", "shares"), roster)
        for k, lost in enumerate(server.refused[count:], count):
            reason = f"{lost.reason} (when masks were taken off; its upload counts)"
            server.refused[k] = Refused(lost.client, reason)
        require(server, "helped to take the masks off", fit, roster.threshold, 1)
        given = {u.client: wire.by_client(u["revealed"]["shares"], roster) for u in fit}
        vectors = [wire.from_words(upload["masked"]["vector"]) for upload in sent[1]]
        return unmasked(roster, stages, vectors, given)

    def add_up(self, server: Server, state: State, total: Words) -> State:
        """The next state from the sum, and T1's from the sum of what changed."""
        like = server.task.initial_weights
        sums, changes = np.split(total.view(np.int64), 2)
        integers = {name: t for name, t in like.items() if not t.is_floating_point()}
        if changes.any():
            moved = fixed.decode(changes[1:], like)
            server.memory(OVERALL).put_sums(moved, int(changes[0]), integers)
        mean = fixed.mean(fixed.decode(sums[1:], like), int(sums[0]), like)
        return self.aggregate(server, state, [Upload(-1, int(sums[0]), Payload(weights=mean))])

    def fault(self, server: Server, step: str, upload: Payload) -> str:
        """What of an upload does not have the form that all must have to be added."""
        if step == "secure_keys" and not wire.is_key(upload["keys"]["public"]):
            return "its public keys are none"
        if step == "secure_shares" and not wire.is_table(upload["shares"]["sealed"], SEALED):
            return "its sealed shares are none"
        if step == "secure_unmask" and not wire.is_table(upload["revealed"]["shares"], REVEALED):
            return "its shares of masks are none"
        if step == "secure_update":
            vector, like = upload["masked"]["vector"], server.task.initial_weights
            if vector.dtype != torch.int64 or vector.shape != (2 + 2 * fixed.length(like),):
                return "its masked upload has not the length of all others"
        return ""


def own_keys(server: Server, keys: Sequence[Upload]) -> list[Upload]:
    """Those whose keys nobody else has sent; the others are refused, or all clients would refuse
    the roster."""
    same = wire.shared(keys)
    why = "its public keys are those of another client"
    server.refused += [Refused(upload.client, why) for upload in keys if upload.client in same]
    return [upload for upload in keys if upload.client not in same]


def of_roster(
    server: Server, uploads: Sequence[Upload], where: tuple[str, str], roster: Roster
) -> list[Upload]:
    """Those whose table has a row for each client of the roster; the others are refused."""
    group, entry = where
    fit: list[Upload] = []
    for upload in uploads:
        count, wanted = len(upload[group][entry]), len(roster.clients)
        if count == wanted:
            fit.append(upload)
        else:
            why = f"its table of {group} has {count} rows, not the {wanted} of the clients asked"
            server.refused.append(Refused(upload.client, why))
    return fit


def require(
    server: Server, what: str, uploads: Sequence[Upload], threshold: int, least: int = LEAST
) -> None:
    """Go on only while as many clients are left as hide each other and can undo masks."""
    wanted = max(least, threshold)
    if len(uploads) < wanted:
        raise TooFewUploads(
            f"round {server.round}: {len(uploads)} clients {what}, and {wanted} are needed for a "
            "sum that hides them (transport.threshold)"
        )


def check_sizes(server: Server, total: Words, summed: Sequence[int], new: Sequence[int]) -> None:
    """Either half of a sum begins with sizes: of all in it, and of those that T1 did not have."""
    found = [int(total[0]), int(total[len(total) // 2])]
    if found != [sum(server.sizes[client] for client in group) for group in (summed, new)]:
        raise FedkfError(
            f"round {server.round}: the masks do not vanish in the sum; "
            "a client sent an upload or shares that are not those of the protocol"
        )


def secrets_of(client: Client) -> RoundSecrets:
    """This round's secrets, as phase 1 left them."""
    if client.state is None or ROUND not in client.state:
        raise FedkfError("it has no keys of this round")
    return RoundSecrets(wire.content(client.state[ROUND]["seed"]))


def began_from(client: Client) -> bytes:
    """Of all that training hangs on beside the message; whoever asks names both."""
    state = client.state or Payload()
    return hashlib.sha256(b"%d\n" % client.round + state.to_bytes()).digest()


def with_groups(state: Payload | None, groups: Mapping[str, Mapping[str, Any]]) -> Payload:
    """A private state with these groups of ours beside the algorithm's own."""
    return (state or Payload()).replace(**groups)


def without_groups(state: Payload | None) -> Payload | None:
    """The part of a state that is the algorithm's own; None if there is nothing."""
    own = Payload()
    for name, kind in state.kinds.items() if state is not None else ():
        if state is not None and name not in (COUNTED, NEWEST, ROUND, LINES):
            own.add(name, {**state[name], **state.numbers[name]}, kind, state.bases.get(name))
    return own if list(own) else None


def keep(client: Client, group: str, whole: fixed.Whole, round: int) -> None:
    values = {"whole": torch.from_numpy(whole), "round": round}
    client.state = with_groups(client.state, {group: values})


def last_counted(state: Payload | None, since: int) -> fixed.Whole | None:
    """The client's upload that T1 counts, of round `since`; None if there is none."""
    if not since:
        return None
    for group in (NEWEST, COUNTED):
        if state is not None and group in state and state.number(group, "round") == since:
            found: fixed.Whole = state[group]["whole"].numpy()
            return found
    raise FedkfError(f"it does not have its upload of round {since} any more")


def lines_of(state: State) -> list[Line]:
    if LINES not in state:
        return []
    return [(int(k), int(made), int(taken)) for k, made, taken in state[LINES]["table"]]


def secured(algorithm: Algorithm, share: float, exact: bool = False) -> Algorithm:
    """The same algorithm, through secure sums."""
    made = algorithm
    if not isinstance(algorithm, SecureSums):
        options = {name: getattr(algorithm, name) for name in algorithm.options()}
        made = secured_kind(type(algorithm))(**options)
    object.__setattr__(made, "share", share)
    object.__setattr__(made, "exact", exact)
    return made


def secured_kind(kind: type[Algorithm]) -> type[SecureSums]:
    """A class with the phases of secure sums before the methods of an algorithm's own."""
    return cast(type[SecureSums], type(kind.__name__, (SecureSums, kind), {}))


def with_own_secrets(algorithm: Algorithm, folder: Path) -> Algorithm:
    """For a site of its own: keys that nobody who knows the run's seed can compute.

    What it has answered under them is recorded in `folder`.
    """
    if isinstance(algorithm, SecureSums):
        object.__setattr__(algorithm, "deployed", True)
        object.__setattr__(algorithm, "answers", folder)
    return algorithm
