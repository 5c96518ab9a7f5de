"""Where data is looked for, and where decoded data is kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkf.core.errors import UserError

A_DAY = 24 * 60 * 60


def places() -> list[Path]:
    """The folders that --data-dir and FEDKF_DATA name, which may be several."""
    given = os.environ.get("FEDKF_DATA", "").split(os.pathsep)
    return [Path(place).expanduser() for place in given if place]


def find(path: str, folder: bool = False) -> Path:
    """A path as given, or below a folder that FEDKF_DATA names."""
    tried = [Path(path).expanduser(), *(place / path for place in places())]
    for candidate in tried:
        with contextlib.suppress(OSError, ValueError):  # a name that no file can have
            if candidate.is_dir() if folder else candidate.is_file():
                return candidate
    what = "folder" if folder else "file"
    hint = "" if len(tried) > 1 else " (FEDKF_DATA may name a folder to look in)"
    raise UserError(f"data.path: no {what} {' or '.join(map(str, tried))}{hint}")


def cache_folder() -> Path:
    """FEDKF_CACHE, or `fedkf` in the user's cache."""
    if given := os.environ.get("FEDKF_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedkf"


def tidy(cache: Path) -> None:
    """Remove what killed processes left in the cache; others may be writing, but for no day."""
    for stray in [*cache.glob(".decoding-*"), *cache.rglob(".*.tmp")]:
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - stray.stat().st_mtime > A_DAY:
                shutil.rmtree(stray) if stray.is_dir() else stray.unlink()


def digest(content: Any) -> str:
    """A name for content in the cache."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def some(names: Sequence[str]) -> str:
    """The first few names.

    >>> some(["a", "b"]), some([*"abcdef"])
    ('a, b', 'a, b, c, d, e …')
    """
    return f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
