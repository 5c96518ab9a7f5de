"""What a coordinator and a site keep is their owner's alone, whatever the umask says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fedkf.core.payload import write_atomically

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
    """A file that only its owner can read, from its first moment on, with all of its content.

    A crash or a full disk leaves what was there before: an empty secret would be anybody's.
    """
    with private():
        write_atomically(path, content)
