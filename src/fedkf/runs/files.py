"""Reading files that may be damaged, hostile or still being written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedkf.core.errors import FedkfError

MEGABYTE = 1 << 20
SMALL = 4 * MEGABYTE
LARGE = 512 * MEGABYTE


class Unreadable(FedkfError):
    """A file that is there but cannot be used; the message says why."""


def open_plain(path: Path) -> int | None:
    """A descriptor of a regular file, None if there is none.

    Links are not followed, so that nothing outside a run's folder is read in its name; a pipe in
    place of a file does not block.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(f"{path.name} is not a file")
    return descriptor


def read_plain(path: Path, most: int = SMALL) -> bytes | None:
    """The content of a regular file of at most so many bytes, None if there is none."""
    descriptor = open_plain(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most:
            raise Unreadable(f"{path.name} is larger than {most // MEGABYTE} MB")
        return file.read(most)


def read_part(path: Path, start: int, most: int) -> bytes:
    """At most so many bytes from `start`; nothing if the file is gone."""
    descriptor = open_plain(path)
    if descriptor is None:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        return file.read(most)
