"""How this process gets its memory from the operating system."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
MEGABYTE = 1 << 20


def keep_freed_memory() -> bool:
    """Keep freed memory for the next tensors instead of giving it back after every step.

    By default glibc returns large blocks at once and the kernel clears every page anew at the next
    step: up to a quarter of the time of a small generator's. Says whether it could be set; other
    C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 64 * MEGABYTE))
    return all(bool(mallopt(key, value)) for key, value in settings)
