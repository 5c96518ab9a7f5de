"""Places: folders that commands write into beside runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fedkf.core.errors import FedkfError, disk_error


def make_folder(folder: Path) -> None:
    """Make a folder that can be written, or say why there is none.

    Asked before anything is computed: a mistake is told at once, and no result is lost to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise disk_error(error, folder) or FedkfError(f"cannot write {folder}: {reason}") from error
