"""Engines carry payloads between server and clients; they know nothing of algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is told beside the clients that it serves."""

    workers: int = 0
    """Processes that share the work; 0 means the calling one."""
    threads: int = 1
    address: str | None = None
    """Of a cluster that runs already, for engines that know one."""
    timeout: float | None = None
    """Seconds after which an exchange goes on without those who have not answered; where clients
    wait for their turn, each has so many from when it begins."""
    need: int = 1
    """Usable uploads that an exchange must have."""
    in_order: bool = False
    """Whether clients begin in the order of their calls, since who answers first counts."""
    say: Callable[[str], None] = lambda text: None
    """Tells the user something in a sentence."""
