"""Tests of a tree, each time in a new process that has torch already: importing it is slow."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

LIMIT = 900
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "numpy"])


def run_tests(tree: Path, tests: Sequence[str]) -> int:
    """Pytest's exit code, 1 for tests that never end; other codes stop everything."""
    process = FORKS.Process(target=pytest_in, args=(tree, list(tests)))
    process.start()
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        process.join()
        return 1
    if process.exitcode not in (0, 1, 2):  # 2: the mutant cannot even be imported
        raise SystemExit(f"pytest {' '.join(tests)} ends with {process.exitcode}")
    return process.exitcode


def pytest_in(tree: Path, tests: list[str]) -> None:
    """In a process of its own, which has torch already and nothing of the package yet."""
    import pytest

    os.chdir(tree)
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(tree / "src")]
    os.environ["PYTHONPATH"] = str(tree / "src")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    sys.exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
