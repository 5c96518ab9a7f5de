"""Limits on what is read from outside, and words for what goes beyond them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

FALLBACK = 4 << 30
"""Bytes of memory, where the system does not tell."""
GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may have."""


def memory() -> int:
    """Bytes that one thing read may take: half of what this machine or container has."""
    have = FALLBACK
    with contextlib.suppress(OSError, ValueError, AttributeError):
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in GROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            have = min(have, int(Path(name).read_text()))
    return have // 2


def in_words(size: int) -> str:
    """A number of bytes as a person says it.

    >>> in_words(4_300_000_000)
    '4.3 GB'
    >>> in_words(12)
    '12 bytes'
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}" if size < 10**21 else "more than a zettabyte"
    return f"{size:,} bytes"


def proper_text(text: str) -> bool:
    """Whether a text can be shown and written: no surrogates, no characters that control.

    >>> [proper_text(text) for text in ("Zürich", "two words", "a\\x1b[2J", "\\ud800")]
    [True, True, False, False]
    """
    return not any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in text)


def shown(value: Any, most: int = 120) -> str:
    """A value as Python writes it, cut where that is long.

    >>> shown([1, 2])
    '[1, 2]'
    >>> shown("x" * 1000, most=8)
    "'xxx… (1,002 characters)"
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of more digits than Python prints
        return f"a {type(value).__name__} too large to show"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most // 2]}… ({len(text):,} characters)"
