"""The two ways a run can end badly, each with the exit code that the command line gives it."""

from __future__ import annotations

import difflib
import errno
import shutil
from collections.abc import Iterable
from pathlib import Path


class FedkfError(Exception):
    """The world failed: a disk, a worker, every upload of a round. The run stays resumable.

    >>> str(FedkfError("the disk is full"))
    'the disk is full'
    """

    exit_code = 1


class UserError(FedkfError):
    """What the user gave is wrong; the message says what was given and what is allowed.

    >>> import fedkf
    >>> try:
    ...     fedkf.run(rounds=0)
    ... except fedkf.UserError as error:
    ...     print(error)
    federation.rounds is 0; it must be greater than or equal to 1
    """

    exit_code = 2


def printable(text: object, most: int = 300) -> str:
    """One line of a text from elsewhere, without characters that a terminal obeys.

    >>> printable("on\\n\\x1b[2Jfire")
    'on  [2Jfire'
    """
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else " " for c in line)[:most]


def nearest(given: str, valid: Iterable[str], listing: str = "") -> str:
    """A hint that names the closest valid word, or lists all of them if none is close.

    >>> nearest("fedafg", ["fedavg", "fedkf"])
    "did you mean 'fedavg'?"
    >>> nearest("rounds", ["data.seed", "federation.rounds"])
    "did you mean 'federation.rounds'?"
    """
    words = sorted(valid)
    ends = {word.rpartition(".")[2]: word for word in reversed(words)}
    close = difflib.get_close_matches(given, words, n=1)
    close += [ends[end] for end in difflib.get_close_matches(given.rpartition(".")[2], ends, n=1)]
    if close:
        return f"did you mean {close[0]!r}?"
    return listing or f"choose from {', '.join(words)}"


DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
PLACE = {
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


def disk_error(error: OSError, folder: Path) -> FedkfError | None:
    """What the disk that holds `folder` refused, as a sentence; None for errors of other origin."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(folder).free if folder.exists() else 0
        return FedkfError(
            f"the disk is full ({free / 1e6:.0f} MB free in {folder}); free some space and "
            "resume the run: nothing that was finished is lost"
        )
    ours = error.filename is not None and str(error.filename).startswith(str(folder))
    if error.errno in DISK or (error.errno in PLACE and ours):
        return FedkfError(f"cannot write {error.filename or folder}: {error.strerror}")
    return None
