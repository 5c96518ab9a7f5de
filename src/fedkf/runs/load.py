"""Whether a machine had other work: its times are then too long."""

from __future__ import annotations

import os

BUSY = 0.5
"""The load above which a machine is not idle."""


def load() -> float:
    """How many programs wanted to run on this machine of late; 0 where it does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
