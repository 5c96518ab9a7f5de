"""Traces of availability: files that say which clients can be chosen in which round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedkf.core.availability import Availability, Rate, Trace
from fedkf.core.errors import UserError
from fedkf.core.limits import in_words, shown
from fedkf.core.shapes import Damage, integer, many, named, parse_json
from fedkf.runs.schema import FederationSettings

KEY = "federation.availability"
MOST_BYTES = 64 << 20


def make_availability(settings: FederationSettings, clients: int) -> Availability | None:
    """Who is there in each round; None means always all."""
    given = settings.availability
    if given == "always":
        return None
    if isinstance(given, str):
        return read_trace(Path(given), clients, settings.rounds)
    return Rate(given)


def read_trace(path: Path, clients: int, rounds: int) -> Trace:
    """A trace that names every round up to the last, and no client that there is not."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{KEY}: {path} is larger than {in_words(MOST_BYTES)}")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{KEY}: {path} cannot be read: {why}") from None
    found: dict[int, set[int]] = {}
    try:
        for round, listed in in_json(content) if path.suffix == ".json" else in_csv(content):
            found.setdefault(round, set()).update(listed)
    except (Damage, UnicodeDecodeError) as error:
        raise UserError(f"{KEY}: {path} {error}") from None
    for round, there in found.items():
        strangers = sorted(client for client in there if not 0 <= client < clients)
        if strangers:
            raise UserError(
                f"{KEY}: {path} names client {shown(strangers[0])} in round {round}; "
                f"clients are numbered from 0 to {clients - 1}"
            )
    for round in range(1, rounds + 1):
        if round not in found:
            raise UserError(
                f"{KEY}: {path} does not name round {round} of {rounds}; a round in which nobody "
                "is available is named without clients"
            )
    return Trace({round: sorted(there) for round, there in found.items()})


def in_csv(content: bytes) -> Iterator[tuple[int, list[int]]]:
    """Lines of a round and clients; lines of the same round add up, and a first one may be words.

    >>> list(in_csv(b"round,clients\\n1,0,4\\n1,5\\n2\\n"))
    [(1, [0, 4]), (1, [5]), (2, [])]
    """
    for number, line in enumerate(content.decode("utf-8-sig").splitlines(), 1):
        fields = [field.strip() for field in line.split(",")]
        while fields and not fields[-1]:
            fields.pop()
        if not fields or (number == 1 and not fields[0].isdecimal()):
            continue
        if any(not field.isdecimal() or len(field) > 9 for field in fields):
            raise Damage(f"must hold a round and client ids; line {number} is {shown(line)}")
        round, *clients = map(int, fields)
        yield round, clients


def in_json(content: bytes) -> Iterator[tuple[int, list[int]]]:
    """An object from rounds to lists of clients.

    >>> list(in_json(b'{"1": [0, 4], "2": []}'))
    [(1, [0, 4]), (2, [])]
    """
    for name, clients in named(many(integer))(parse_json(content)).items():
        if not name.isdecimal() or len(name) > 9:
            raise Damage(f"must have rounds as its keys, not {shown(name)}")
        yield int(name), clients
