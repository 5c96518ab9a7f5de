"""What kill -9 leaves of a run's folder, at whatever moment it comes."""

from __future__ import annotations

import shutil
from pathlib import Path

from conftest import Settings
from kills import killed_at_every_step

import fedkf
from fedkf.runs.store import RunFolder


def test_a_run_whose_removal_was_killed_is_removed_by_the_next_one(
    settings: Settings, tmp_path: Path
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    fedkf.run(settings, out=whole, algorithm="fedavg", rounds=1, keep="best")
    shutil.copytree(whole, run)
    for _ in killed_at_every_step(RunFolder(run).clear):
        RunFolder(run).clear()
        assert [path.name for path in run.iterdir()] == [".lock"]
        shutil.rmtree(run)
        shutil.copytree(whole, run)
