"""The protocol's messages as payloads: bytes and words in tensors, and back."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedkf.core.payload import Payload
from fedkf.secure.protocol import PUBLIC, Roster, needed
from fedkf.secure.secrets import Words, exchangeable

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.server import Server, Upload


def tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def content(data: Tensor) -> bytes:
    return data.numpy().tobytes()


def digest(message: Payload) -> bytes:
    """Of all that a message says; the same for the server and for every client it was sent to."""
    return hashlib.sha256(message.to_bytes()).digest()


def words(vector: Words) -> Tensor:
    """64-bit words as the integers with the same bits, which any file format has."""
    return torch.from_numpy(vector.view(np.int64))


def from_words(vector: Tensor) -> Words:
    return vector.numpy().view(np.uint64)


# -- the roster ---------------------------------------------------------------------------------


def is_key(value: Tensor) -> bool:
    """Whether every other client can agree on secrets with whoever has this key."""
    shaped = value.dtype == torch.uint8 and value.shape == (PUBLIC,)
    return shaped and exchangeable(content(value))


def shared(keys: Sequence[Upload]) -> set[int]:
    """The clients that have sent the same keys as another one."""
    sent = {upload.client: content(upload["keys"]["public"]) for upload in keys}
    counts = Counter(sent.values())
    return {client for client, key in sent.items() if counts[key] > 1}


def make_roster(keys: Sequence[Upload], asked: int, threshold: int) -> Roster:
    public = tuple(content(upload["keys"]["public"]) for upload in keys)
    return Roster(tuple(upload.client for upload in keys), public, asked, threshold)


def with_roster(
    roster: Roster, server: Server, down: Payload | None = None, **marks: Sequence[int]
) -> Payload:
    """A message that names the roster and, by `marks`, some of its clients."""
    message = down or Payload()
    values: dict[str, Tensor | int] = {
        "asked": roster.asked,
        "clients": len(server.sizes),
        "ids": torch.tensor(roster.clients),
        "keys": torch.stack([tensor(key) for key in roster.keys]),
    }
    for name, clients in marks.items():
        values[name] = torch.tensor([k in clients for k in roster.clients], dtype=torch.uint8)
    return message.add("roster", values, "public_keys")


def read_roster(down: Payload, share: float) -> Roster:
    """The roster as a client sees it; how many must stay is for the client to say."""
    found, asked = down["roster"], int(down.number("roster", "asked"))
    ids = tuple(int(k) for k in found["ids"])
    keys = tuple(content(key) for key in found["keys"])
    return Roster(ids, keys, asked, needed(max(asked, len(ids)), share))


def marked(down: Payload, name: str, roster: Roster) -> list[int]:
    """The clients of the roster that a message names."""
    flags = down["roster"][name].tolist()
    return [k for k, flag in zip(roster.clients, flags, strict=True) if flag]


def of_client(down: Payload, name: str, client: int, roster: Roster) -> int:
    """What a message says of one client of the roster."""
    return int(down["roster"][name][roster.clients.index(client)])


# -- rows, one for each client of the roster ----------------------------------------------------


def rows(values: Mapping[int, bytes], roster: Roster) -> Tensor:
    """A row of bytes for each client; zeros for those that have none."""
    width = len(next(iter(values.values())))
    return torch.stack([tensor(values.get(k, bytes(width))) for k in roster.clients])


def is_table(table: Tensor, width: int) -> bool:
    return table.dtype == torch.uint8 and table.ndim == 2 and table.shape[1] == width


def by_client(table: Tensor, roster: Roster) -> dict[int, bytes]:
    return {k: content(row) for k, row in zip(roster.clients, table, strict=True)}


def spread(tables: Tensor, senders: Sequence[int], roster: Roster) -> Tensor:
    """Tables of some senders as one for the whole roster, zeros where there is none."""
    whole = tables.new_zeros((len(roster.clients), *tables.shape[1:]))
    for sender, table in zip(senders, tables, strict=True):
        whole[roster.clients.index(sender)] = table
    return whole


def column(tables: Tensor, receiver: int, roster: Roster) -> dict[int, bytes]:
    """What every client sent to one of them."""
    mine = roster.clients.index(receiver)
    return {k: content(table[mine]) for k, table in zip(roster.clients, tables, strict=True)}
