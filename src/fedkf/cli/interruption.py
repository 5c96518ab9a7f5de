"""Ctrl-C, and a polite kill, as a sentence and an exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fedkf.core.errors import FedkfError


class Stopped(FedkfError):
    """Ctrl-C."""

    exit_code = 130


@contextmanager
def interruptible(sentence: str) -> Iterator[None]:
    """End with this sentence where the user, or SIGTERM, ends what is inside."""
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence) from None
    finally:
        signal.signal(signal.SIGTERM, previous)


def interrupt(number: int, frame: object) -> None:
    """A signal's handler that does what Ctrl-C does."""
    raise KeyboardInterrupt
