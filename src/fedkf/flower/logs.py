"""What a site writes down: everything that it sent, and every message that it refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedkf.core.digests import digest
from fedkf.core.errors import FedkfError
from fedkf.flower.orders import locked
from fedkf.flower.private import private

SENT, REFUSED = "sent.jsonl", "refused.jsonl"
RECOVERED = "recovered"
"""The type of a line that is of no answer: the site's operator vouched for its account."""
PURPOSE = b"fedkf sent 1\n"
BEGINNING = "0" * 64
"""What the first line has in the place of the digest of the line before."""
NEAR = 1 << 20
"""Bytes of a log that are near its end, unless its last line is longer."""
MOST = 1 << 22
"""Bytes of refused.jsonl, which a stranger could fill a disk with; then a new one is begun."""


class SentLog:
    """SITE/sent.jsonl: a line for every answer, written before it leaves. Each is signed with the
    site's key and names the digest of the line before, so that none can be changed, taken out or
    put in unnoticed; but the last lines could be cut off by whoever can write to the folder."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @private()
    def append(
        self,
        entry: Mapping[str, Any],
        key: ec.EllipticCurvePrivateKey,
        more: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """A line with this entry; `more` of it is asked for when no other line can come between."""
        with locked(self.file):
            drop_torn_line(self.file)
            last = last_line(self.file)
            previous = digest(last) if last else BEGINNING
            content = {"time": now(), **entry, **more(), "previous": previous}
            signature = key.sign(PURPOSE + canonical(content), ec.ECDSA(hashes.SHA384()))
            line = json.dumps({**content, "signature": signature.hex()}) + "\n"
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "wb") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(descriptor)

    def last(self, name: str, key: ec.EllipticCurvePublicKey) -> Any:
        """What is said by this name, by the last line that does; None if none near the end does.

        Raises ValueError if the site did not write that line.
        """
        for line in reversed(end_of(self.file).split(b"\n")[:-1]):
            if f'"{name}": '.encode() in line:
                found = signed(line, key)
                if found is None:
                    raise ValueError(f"{self.file}: a line is not what the site wrote there")
                return found.get(name)
        return None

    def check(self, key: ec.EllipticCurvePublicKey) -> int:
        """How many answers were sent; raises where a line is not as it was written."""
        previous, number, others = BEGINNING, 0, 0
        if not self.file.exists():
            return 0
        with open(self.file, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") or not authentic(line, previous, key):
                    raise FedkfError(f"{self.file}: line {number} is not what the site wrote there")
                previous = digest(line.rstrip(b"\n"))
                others += f'"type": "{RECOVERED}"'.encode() in line
        return number - others


def authentic(line: bytes, previous: str, key: ec.EllipticCurvePublicKey) -> bool:
    content = signed(line, key)
    return content is not None and content.get("previous") == previous


def signed(line: bytes, key: ec.EllipticCurvePublicKey) -> dict[str, Any] | None:
    """What a line says, if whoever has the key wrote it."""
    try:
        content: dict[str, Any] = json.loads(line)
        signature = bytes.fromhex(content.pop("signature"))
        key.verify(signature, PURPOSE + canonical(content), ec.ECDSA(hashes.SHA384()))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature):
        return None
    return content


class RefusedLog:
    """SITE/refused.jsonl: a numbered line for every message that was not obeyed."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @private()
    def append(self, reason: str, about: Mapping[str, Any]) -> None:
        with locked(self.file):
            drop_torn_line(self.file)
            number = self.count() + 1
            if self.file.exists() and self.file.stat().st_size > MOST:
                os.replace(self.file, self._before)
            line = json.dumps({"number": number, "time": now(), "reason": reason, **about})
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        print(f"fedkf site: refused message {number}: {reason} {dict(about)}", file=sys.stderr)

    @property
    def _before(self) -> Path:
        """What there was before this one was begun."""
        return self.file.with_name(f"{self.file.name}.old")

    def count(self) -> int:
        """How many messages were refused, ever."""
        last = last_line(self.file) or last_line(self._before)
        try:
            return int(json.loads(last)["number"])
        except (ValueError, KeyError, TypeError):
            return 0


def end_of(file: Path) -> bytes:
    """The last lines from the beginning of one of them; the last whole one is among them."""
    if not file.exists():
        return b""
    with open(file, "rb") as content:
        size, length = content.seek(0, os.SEEK_END), NEAR
        while True:
            content.seek(max(0, size - length))
            end = content.read(length)
            if length >= size:
                return end
            if end.count(b"\n") > 1:
                return end.partition(b"\n")[2]
            length *= 2  # a line may be longer than that


def last_line(file: Path) -> bytes:
    """The last whole line without its end; empty where there is none."""
    return end_of(file).rpartition(b"\n")[0].rpartition(b"\n")[2]


def drop_torn_line(file: Path) -> None:
    """A line that a crash cut off in its middle was never written: nothing followed from it."""
    torn = end_of(file).rpartition(b"\n")[2]
    if torn:
        os.truncate(file, file.stat().st_size - len(torn))


def canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
