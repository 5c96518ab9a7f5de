"""Orders: what a coordinator asks of a site is signed, for that site, once, and not for ever.

Everything that a site reads of a message is under the signature: the call with the versions that
are kept, the experiment and its configuration, the digest of the payload, the site that is meant,
a number that only grows, and when it expires. Anything else is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from flwr.app import ArrayRecord, ConfigRecord, Message

from fedkf.core.digests import digest
from fedkf.core.errors import FedkfError
from fedkf.core.payload import write_atomically
from fedkf.flower.private import private
from fedkf.flower.settings import SiteRefusal

PURPOSE = "fedkf order 1"
"""Signed with every order, so that no signature of another kind can stand for one."""


class OrderRefusal(SiteRefusal):
    """A message that a site does not obey, whoever sent it."""


@dataclass(frozen=True)
class Recipient:
    """The site that an order is for: by its node, and by its own key, whatever its node is."""

    node: int
    site: str


# -- the coordinator's side ----------------------------------------------------------------------


def sign(message: Message, key: Ed25519PrivateKey, to: Recipient, number: int) -> str:
    """Make an order of a message; the result is the order's digest, to which its answer refers."""
    terms: dict[str, Any] = {
        "node": str(to.node),
        "site": to.site,
        "number": number,
        "expires": time.time() + message.metadata.ttl,
        "payload": payload_digest(message),
    }
    message.content["order"] = ConfigRecord(terms)
    content = signed_content(message)
    message.content["order"] = ConfigRecord({**terms, "signature": key.sign(content)})
    return hashlib.sha256(content).hexdigest()


def signed_content(message: Message) -> bytes:
    """What the signature of a message is over."""
    records = message.content.config_records
    terms = {key: value for key, value in records["order"].items() if key != "signature"}
    signed = [PURPOSE, message.metadata.message_type, dict(records["call"]), terms]
    return json.dumps(signed, sort_keys=True, allow_nan=False).encode()


def payload_digest(message: Message) -> str:
    """Of the one array that a message may carry, as its bytes travel."""
    found = hashlib.sha256()
    for record in message.content.array_records.values():
        found.update(array_bytes(record))
    return found.hexdigest()


def array_bytes(record: ArrayRecord) -> bytes:
    arrays = list(record.values())
    if len(arrays) != 1:
        raise OrderRefusal("it holds other arrays than one payload")
    return arrays[0].data


class Numbers:
    """Numbers that only grow, for all processes that share a file, and after an older copy of it
    was put back as well: they are never smaller than the time in microseconds."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @private()
    def take(self, count: int) -> range:
        """The next so many numbers, which nobody else gets."""
        with locked(self.file):
            last = self._last()
            first = max(last + 1, time.time_ns() // 1000)
            write_atomically(self.file, str(first + count - 1).encode())
        return range(first, first + count)

    def _last(self) -> int:
        if not self.file.exists():
            return 0
        try:
            return int(self.file.read_text())
        except ValueError:
            raise FedkfError(
                f"{self.file} is damaged; put a copy back, or remove it if this machine's clock "
                "was never ahead"
            ) from None


# -- the site's side -----------------------------------------------------------------------------


class Guard:
    """Lets through what the coordinator ordered, each order once, in the order of their numbers.

    What it has seen is on the disk, because every message is served by a process of its own.
    """

    def __init__(self, file: Path, key: Ed25519PublicKey, own: Recipient) -> None:
        self.file, self.key, self.own = file, key, own

    def check(self, message: Message) -> str:
        """The digest of the order that a message is; raises if it is none to be obeyed."""
        content = self._authentic(message)
        records = message.content.config_records
        terms: dict[str, Any] = dict(records["order"])
        if (terms["node"], terms["site"]) != (str(self.own.node), self.own.site):
            raise OrderRefusal("it is meant for another site")
        if terms["payload"] != payload_digest(message):
            raise OrderRefusal("its payload is not the one that was signed")
        late = time.time() - float(terms["expires"])
        if late > 0:
            raise OrderRefusal(f"it expired {late:.0f} s ago (do the clocks differ?)")
        self._once(str(records["call"]["experiment"]), int(terms["number"]))
        return hashlib.sha256(content).hexdigest()

    def _authentic(self, message: Message) -> bytes:
        """What was signed, if it was by the coordinator and is all that the message holds."""
        names = set(message.content)
        if "order" not in names:
            raise OrderRefusal("it is not signed")
        try:
            content = signed_content(message)
            signature: Any = message.content.config_records["order"]["signature"]
            self.key.verify(signature, content)
        except (InvalidSignature, KeyError, ValueError, TypeError):
            raise OrderRefusal("it is not signed by the coordinator") from None
        if not names <= {"order", "call", "payload"}:
            raise OrderRefusal("it holds more than was signed")
        return content

    @private()
    def _once(self, experiment: str, number: int) -> None:
        """Refuse a number that is not above all that were seen of its experiment; the first one of
        an experiment must be above those of every other, so that none is begun again later."""
        with locked(self.file):
            seen = self._seen()
            last = seen.get(experiment, max(seen.values(), default=0))
            if number <= last:
                raise OrderRefusal(f"it is an old one (number {number}, and {last} was seen)")
            write_atomically(self.file, json.dumps({**seen, experiment: number}).encode())

    def _seen(self) -> dict[str, int]:
        if not self.file.exists():
            return {}
        try:
            seen: Any = json.loads(self.file.read_bytes())
        except ValueError:
            seen = None
        if not isinstance(seen, dict) or not all(type(n) is int for n in seen.values()):
            raise OrderRefusal(f"{self.file.name} is damaged, so old orders cannot be told apart")
        return seen


def kept_of(file: Path, key: Ed25519PublicKey) -> Path:
    """Where a site keeps what it has seen of a coordinator's orders while it obeys another one."""
    return file.with_name(f"{file.stem}.{digest(key.public_bytes_raw())[:16]}{file.suffix}")


@private()
def put_aside(file: Path, key: Ed25519PublicKey) -> None:
    """Keep what was seen of the orders that this key signed, before another key is obeyed."""
    with locked(file):
        if file.exists():
            write_atomically(kept_of(file, key), file.read_bytes())


@private()
def take_up(file: Path, key: Ed25519PublicKey) -> None:
    """Go on with what was seen of this key's orders, if what the file holds was put aside as that
    of another key: the numbers of two coordinators have nothing to do with each other, and one
    whose clock was ahead has larger ones than the next will have for long.

    The file stays, for it says that orders were obeyed at all. A crash after `put_aside` is made
    up for when the same key is taken again.
    """
    with locked(file):
        own = kept_of(file, key)
        others = {*file.parent.glob(f"{file.stem}.*{file.suffix}")} - {own}
        content = file.read_bytes() if file.exists() else None
        if content is not None and content in [other.read_bytes() for other in others]:
            write_atomically(file, own.read_bytes() if own.exists() else b"{}")


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Alone with a file, among all processes that ask for it like this."""
    descriptor = lock_of(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(file: Path) -> bool:
    """Whether some process is alone with a file."""
    descriptor = lock_of(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_of(file: Path) -> int:
    return os.open(file.with_name(f"{file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
