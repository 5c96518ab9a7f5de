"""Manifest: what a checkpoint consists of, each file with its digest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkf.core.digests import digest
from fedkf.core.records import Round
from fedkf.core.shapes import Damage, mapping, named, parse_json, read_record, take, text, whole

Latest = dict[str, dict[int, str]]
"""The accepted version of every client, per store."""

SEAL, DIGESTS = "seal", "sha256"


def file_name(value: object) -> str:
    """A name of a file or folder in the checkpoint, and nowhere else."""
    name = text(value)
    if not re.fullmatch(r"[^/\0.][^/\0]*", name):
        raise Damage("must be the name of a file")
    return name


@dataclass(frozen=True)
class Manifest:
    """A checkpoint: manifest.json. Whatever it names is immutable, but for the journal's end."""

    round: int
    payloads: Mapping[str, str]
    """The file of each payload."""
    journal: int
    """How much of journal.jsonl counts, in bytes."""
    ledger: dict[str, dict[str, dict[str, int]]]
    record: Round
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Of each payload's file and of the part of the journal that counts; older ones have none."""

    def to_bytes(self) -> bytes:
        """As it is written: with a seal over all of it, so that no change goes unnoticed."""
        body = {
            "round": self.round,
            "payloads": self.payloads,
            "journal": self.journal,
            "ledger": self.ledger,
            "record": self.record.as_json(),
            DIGESTS: self.sha256,
        }
        return json.dumps({**body, SEAL: digest(json.dumps(body).encode())}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> Manifest:
        body = mapping(parse_json(content))
        seal = body.pop(SEAL, None)
        if (seal is not None or DIGESTS in body) and seal != digest(json.dumps(body).encode()):
            raise Damage("is not what was written (its seal is broken)")
        return read_record(
            Manifest,
            body,
            round=whole,
            payloads=named(file_name),
            journal=whole,
            ledger=named(named(named(whole))),
            record=Round.read,
            sha256=named(text),
        )


def journal_line(changes: Mapping[str, Mapping[int, str]], digests: Mapping[str, str]) -> bytes:
    """What a commit adds to the journal: the clients' new files, and the digest of each."""
    content: dict[str, Any] = {store: dict(made) for store, made in changes.items() if made}
    if digests:
        content[DIGESTS] = dict(digests)
    return json.dumps(content).encode() + b"\n"


def replay(journal: bytes) -> tuple[Latest, dict[str, str]]:
    """The accepted version of every client, per store, and the digests of their files."""
    latest: Latest = {}
    digests: dict[str, str] = {}
    for number, line in enumerate(journal.splitlines(), 1):
        try:
            content = mapping(parse_json(line))
            digests.update(named(text)(content.pop(DIGESTS, {})))
            for store in content:
                file_name(store)
                changes = take(content, store, named(version))
                latest.setdefault(store, {}).update({int(k): v for k, v in changes.items()})
        except (Damage, ValueError) as error:
            raise Damage(f"line {number} is damaged: {error}") from None
    return latest, digests


def version(value: object) -> str:
    if not re.fullmatch(r"\d+(\.\d+)?", text(value)):
        raise Damage("must be a version")
    return text(value)
