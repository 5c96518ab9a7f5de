"""The machine: its cores, and whether it had other work, so that its times are too long."""

from __future__ import annotations

import os

BUSY = 0.5
"""The load above which a machine is not idle."""


def cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def load() -> float:
    """How many programs wanted to run on this machine of late; 0 where it does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
