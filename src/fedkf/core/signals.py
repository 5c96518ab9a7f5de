"""Signals: what the user sends, told apart from the same exceptions raised by a client's code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDINGS = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""What ends a program, though any code may raise it."""


class Signalled:
    """What the handlers of signals have raised."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    def __contains__(self, error: object) -> bool:
        return any(error is raised for raised in self._raised)

    def watching(self, handler: Any) -> Any:
        """A handler that does the same and remembers what it raised."""

        def watched(number: int, frame: object) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self._raised.append(error)
                raise

        return watched


@contextmanager
def watched_signals() -> Iterator[Signalled]:
    """Within, know which exceptions are a signal's: Ctrl-C or a polite kill.

    Signals reach the main thread only; in any other, what is raised is the code's own.
    """
    found, before = Signalled(), {}
    main = threading.current_thread() is threading.main_thread()
    try:
        for number in (signal.SIGINT, signal.SIGTERM) if main else ():
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, found.watching(handler))
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
