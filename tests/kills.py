"""Processes that die by kill -9 at a chosen moment of their work on the disk."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.truncate", "os.mkdir"}


def killed_at_every_step(work: Callable[[], object]) -> Iterator[int]:
    """Do `work` again and again, each time dying one step later, until it comes to its end.

    The steps are what Python tells its audit hooks of: files opened for writing, renamed, removed.
    """
    step = 0
    while killed_before(step, work):
        yield step
        step += 1


def killed_before(step: int, work: Callable[[], object]) -> bool:
    """Do `work` in a process of its own that dies before this step, if there are so many."""
    pid = os.fork()
    if pid == 0:
        left = step

        def count(event: str, about: tuple[Any, ...]) -> None:
            nonlocal left
            writing = event == "open" and about[2] & (os.O_WRONLY | os.O_RDWR)
            if event in CHANGES or writing:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(count)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), "the work itself failed"
    return code != 0
