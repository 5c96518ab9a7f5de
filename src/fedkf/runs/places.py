"""Places: folders that commands write into beside runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fedkf.core.errors import FedkfError, UserError


def make_folder(folder: Path) -> None:
    """Make a folder that can be written, or say why there is none.

    Asked before anything is computed: a mistake is told at once, and no result is lost to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unwritable(error, folder) from error


def unwritable(error: OSError, place: Path) -> FedkfError:
    """Why a place cannot be written; a file where a folder must be is the user's mistake."""
    if isinstance(error, NotADirectoryError | FileExistsError):
        file = next(p for p in (place, *place.parents) if os.path.lexists(p))
        return UserError(f"cannot write {place}: {file} is no folder")
    return FedkfError(f"cannot write {place}: {error.strerror or error}")
