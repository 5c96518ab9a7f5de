"""What a coordinator and a site keep is their owner's alone, whatever the umask says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

OWNER_ALONE = 0o077
"""A umask: files are made with mode 0600, folders and programs with 0700."""


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Whatever is made meanwhile is private; `@private()` does that for a function."""
    before = os.umask(OWNER_ALONE)
    try:
        yield
    finally:
        os.umask(before)


def current_umask() -> int:
    """The umask of this process, which can only be read by setting it."""
    before = os.umask(OWNER_ALONE)
    os.umask(before)
    return before


def write_secret(path: Path, content: bytes) -> None:
    """A file that only its owner can read, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # it may have been there
    with open(descriptor, "wb") as file:
        file.write(content)
