"""Memory that is freed in one step serves the next."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from fedkf.core.allocator import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("unknown C library")
    raise SystemExit
def step():
    [torch.ones(12_000_000) for _ in range(2)]
for _ in range(20):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> str:
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_kept_memory_is_not_fetched_anew() -> None:
    kept = page_faults("keep")
    if kept == "unknown C library":
        pytest.skip("only glibc can be told")
    assert int(kept) < 100 < 10_000 < int(page_faults("default"))
