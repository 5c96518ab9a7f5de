"""One process at a time writes a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Settings

import fedkf
from fedkf.core.errors import FedkfError
from fedkf.runs.store import RunFolder


def test_two_processes_cannot_write_one_folder(settings: Settings, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        RunFolder(tmp_path).claim(resume=True)
        os.write(writing, b"x")
        os.read(os.pipe()[0], 1)  # holds the lock until it is killed
        os._exit(0)
    os.read(reading, 1)
    try:
        with pytest.raises(FedkfError, match="is being written by another process"):
            fedkf.run(settings, out=tmp_path, resume=True)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert fedkf.run(settings, out=tmp_path, resume=True).summary["rounds"] == 3


def test_a_folder_is_one_by_whatever_way_it_is_reached(tmp_path: Path) -> None:
    held = RunFolder(tmp_path / "run")
    (tmp_path / "link").symlink_to("run")
    with held.claimed(resume=True):
        with pytest.raises(FedkfError, match="is being written by this very process"):
            RunFolder(tmp_path / "link").claim(resume=True)
        try_it = f"from fedkf.runs.store import *; RunFolder(Path({str(held.path)!r})).claim(True)"
        other = subprocess.run([sys.executable, "-c", try_it], capture_output=True, check=False)
        assert b"is being written by another process" in other.stderr
    with RunFolder(tmp_path / "link").claimed(resume=True):
        pass
