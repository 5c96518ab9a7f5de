"""Digests: the SHA-256 of bytes and of files, by which what was written is known again."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file_digest(path: str | Path) -> str:
    """The SHA-256 of a file, which is read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
