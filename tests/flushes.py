"""What is flushed to the disk, in the order in which it happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def flushes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A list that every file and folder is added to when it is flushed."""
    flushed: list[Path] = []
    flush = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return flushed
