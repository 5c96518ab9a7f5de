"""Sweeps as processes: killed, resumed, failed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedkf.runs import suite
from fedkf.runs.sweep import RECORD, sweep

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(npz: Path, tmp_path: Path) -> Path:
    """Two algorithms, two seeds, six rounds each."""
    path = tmp_path / "suite.yaml"
    path.write_text(
        f"""
base:
  data: {{source: npz, path: {npz}, clients: 6, alpha: 0.5, min_samples: 3}}
  model.name: lenet5
  federation: {{rounds: 6, fraction: 0.5, local_epochs: 2, batch_size: 8, lr: 0.05}}
  generator: {{width: 4, noise: 8}}
grid:
  algorithm.name: [fedavg, fedkf]
  federation.seed: [0, 1]
"""
    )
    return path


def command(path: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "fedkf", "sweep", str(path), "--out", str(folder), "--jobs", "2"]


def rounds(folder: Path) -> int:
    return sum(p.read_bytes().count(b"\n") for p in folder.glob("*/rounds.jsonl"))


def tables(folder: Path) -> dict[str, str]:
    return {e: (folder / f"table.{e}").read_text() for e in ("md", "csv", "tex")}


def children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in listed.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(true: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    for _ in range(6000):
        if true() or (process is not None and process.poll() is not None):
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
def test_a_sweep_killed_three_times_ends_with_the_same_tables(path: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(path, whole), check=True, capture_output=True)
    for kill in (1, 2, 3):
        process = subprocess.Popen(
            command(path, broken), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        before = rounds(broken)
        wait_until(lambda seen=before: rounds(broken) >= seen + 2, process)  # type: ignore[misc]
        runs = children(process.pid) if process.poll() is None else []
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (broken / "table.md").exists(), f"finished before kill {kill}"
        wait_until(lambda pids=runs: not any(map(alive, pids)))  # type: ignore[misc]
    subprocess.run(command(path, broken), check=True, capture_output=True)
    assert tables(broken) == tables(whole)
    assert rounds(broken) == 4 * 6


def test_finished_records_are_not_run_again(path: Path, tmp_path: Path) -> None:
    plans = suite.read(path).plans
    done, failures = sweep(plans, tmp_path / "runs", jobs=2, keep=tmp_path / "kept")
    assert not failures
    summaries = {name: run.summary for name, run in done.items()}
    assert sorted(done) == sorted(plan.name for plan in plans)
    assert not list((tmp_path / "runs").glob("*/checkpoint"))
    kept = sorted(p.name for p in (tmp_path / "kept" / plans[0].name).iterdir())
    assert kept == sorted(RECORD)
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "kept" / plans[0].name).rename(tmp_path / "kept" / "another name")
    again, _ = sweep(plans, tmp_path / "other", look_in=[tmp_path / "kept"])
    assert not (tmp_path / "other").exists()
    assert {name: run.summary for name, run in again.items()} == summaries


def test_more_rounds_than_finished_runs_have_are_refused_and_nothing_is_lost(
    path: Path, tmp_path: Path, cli: Cli
) -> None:
    """A sweep removes the checkpoints of finished runs, so that they cannot go on."""
    path.write_text(path.read_text().replace("rounds: 6", "rounds: 1").replace("[0, 1]", "[0]"))
    assert cli("sweep", path, "--out", tmp_path / "runs", "--jobs", 1)[0] == 0
    before = {p: p.read_bytes() for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    path.write_text(path.read_text().replace("rounds: 1", "rounds: 2"))
    code, _, err = cli("sweep", path, "--out", tmp_path / "runs", "--jobs", 1)
    assert (code, err.count("\n")) == (2, 1)
    assert "fedavg,seed=0: the run in" in err
    assert "checkpoint is gone, so that it cannot go on; choose another folder" in err
    assert {p: p.read_bytes() for p in (tmp_path / "runs").rglob("*") if p.is_file()} == before


def test_a_record_of_another_experiment_makes_room_for_the_one_of_its_name(
    path: Path, tmp_path: Path
) -> None:
    path.write_text(path.read_text().replace("rounds: 6", "rounds: 1").replace("[0, 1]", "[0]"))
    kept = tmp_path / "kept"
    plans = suite.read(path).plans[:1]
    sweep(plans, tmp_path / "one", jobs=1, keep=kept)
    path.write_text(path.read_text().replace("lr: 0.05", "lr: 0.06"))
    others = suite.read(path).plans[:1]
    assert [plan.name for plan in others] == [plan.name for plan in plans]
    for _ in range(2):  # when it was run, and when it is found
        sweep(others, tmp_path / "two", jobs=1, keep=kept)
        assert suite.answers(others[0], suite.records([kept])) is not None
        assert suite.answers(plans[0], suite.records([kept])) is None
        shutil.rmtree(kept)
        sweep(plans, tmp_path / "one", jobs=1, keep=kept)
        stamp = (kept / plans[0].name / "summary.json").stat().st_mtime_ns
        sweep(plans, tmp_path / "one", jobs=1, keep=kept)  # the same is not written again
        assert (kept / plans[0].name / "summary.json").stat().st_mtime_ns == stamp


def test_the_table_holds_mean_and_std_over_seeds(path: Path, tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("sweep", path, "--out", tmp_path / "runs", "--jobs", 2)
    assert code == 0
    folders = [tmp_path / "runs" / f"fedkf,seed={seed}" for seed in (0, 1)]
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    a, b = (100 * summary["readouts"]["oca"]["amp"] for summary in summaries)
    std = abs(a - b) / 2**0.5
    assert f"{(a + b) / 2:.2f} ± {std:.2f}" in text


def test_one_failing_run_does_not_stop_the_others(path: Path, tmp_path: Path, cli: Cli) -> None:
    blocked = tmp_path / "runs" / "fedavg,seed=0"
    blocked.mkdir(parents=True)
    (blocked / "rounds.jsonl").mkdir()  # a folder where a file must go
    code, text, err = cli("sweep", path, "--out", tmp_path / "runs", "--jobs", 2)
    assert code == 1
    assert "fedavg,seed=0 failed" in err.splitlines()[-1]
    assert "FedKF (OCA)" in text
    assert (tmp_path / "runs" / "fedkf,seed=1" / "summary.json").exists()


def test_a_mistake_stops_the_sweep_before_anything_runs(
    path: Path, tmp_path: Path, cli: Cli, npz: Path
) -> None:
    path.write_text(path.read_text().replace(str(npz), "no-such-file.npz"))
    code, _, err = cli("sweep", path, "--out", tmp_path / "runs")
    assert (code, err.count("\n")) == (2, 1)
    assert "no-such-file.npz" in err
    assert cli("sweep", tmp_path / "none.yaml")[0] == 2
    assert os.listdir(tmp_path) == ["suite.yaml"]
