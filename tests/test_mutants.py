"""The catalogue of wrong rules follows the source: each can be put into it, and has its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_wrong_rule_can_be_made() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/mutants", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) > 350
