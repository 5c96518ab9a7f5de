"""The same bytes, whatever the number of workers and however often the run was killed."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf.core.algorithm import State
from fedkf.core.server import Server, Upload


@pytest.mark.parametrize("fidelity", ["text", "released"])
def test_any_number_of_workers_gives_identical_models(
    settings: Settings, tmp_path: Path, fidelity: str
) -> None:
    results = []
    for workers in (0, 1, 2, 4):
        folder = tmp_path / str(workers)
        fedkf.run(settings, fidelity=fidelity, workers=workers, out=folder)
        results.append(model_bytes(folder))
    assert len(results[0]) == 2
    assert results[0] == results[1] == results[2] == results[3]


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_killed_ten_times_and_resumed_it_ends_with_the_same_models_and_rounds(
    settings: Settings, tmp_path: Path
) -> None:
    settings["federation"]["rounds"] = 60
    # Rounds of a tenth of a second, so that ten random moments fall into ten different places.
    settings["federation"]["local_epochs"] = 4
    whole = fedkf.run(settings, out=tmp_path / "whole", workers=2)
    dice = random.Random(0)
    kills, strays = 0, []
    while kills < 10:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                fedkf.run(settings, out=tmp_path / "killed", workers=2, resume=True)
            os._exit(0)
        time.sleep(dice.uniform(0.2, 0.9))
        workers = children(pid)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            break  # it finished before it could be killed ten times
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline and any(map(alive, workers)):
            time.sleep(0.02)
        strays += [w for w in workers if alive(w)]
    result = fedkf.run(settings, out=tmp_path / "killed", workers=2, resume=True)
    assert kills == 10
    assert not strays
    assert model_bytes(tmp_path / "killed") == model_bytes(tmp_path / "whole")

    def without_seconds(history: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{k: v for k, v in record.items() if k != "seconds"} for record in history]

    assert without_seconds(result.history) == without_seconds(whole.history)
    assert result.summary["bytes"] == whole.summary["bytes"]


def test_rounds_may_grow_and_the_result_is_that_of_one_long_run(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, out=tmp_path / "long", rounds=4)
    fedkf.run(settings, out=tmp_path / "grown", rounds=2)
    fedkf.run(settings, out=tmp_path / "grown", rounds=4, resume=True)
    assert model_bytes(tmp_path / "grown") == model_bytes(tmp_path / "long")


@pytest.mark.parametrize("every", [1, 3])
def test_a_run_that_failed_between_checkpoints_goes_on_from_the_last_one(
    settings: Settings, tmp_path: Path, every: int
) -> None:
    def explode(record: dict[str, object]) -> None:
        if record["round"] == 5:
            raise RuntimeError("boom")

    options: dict[str, Any] = {"rounds": 7, "checkpoint_every": every}
    fedkf.run(settings, out=tmp_path / "whole", **options)
    with pytest.raises(RuntimeError, match="boom"):
        fedkf.run(settings, out=tmp_path / "broken", on_round=explode, **options)
    result = fedkf.run(settings, out=tmp_path / "broken", resume=True, **options)
    assert [record["round"] for record in result.history] == list(range(1, 8))
    assert model_bytes(tmp_path / "broken") == model_bytes(tmp_path / "whole")


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_round_without_a_model_leaves_the_checkpoint_before_it(
    settings: Settings, tmp_path: Path, value: float | None
) -> None:
    broken = [True]

    @dataclass(frozen=True)
    class Breaking(fedkf.FedAvg):
        name: ClassVar[str] = "breaking"

        def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
            new = super().aggregate(server, state, uploads)
            if not broken[0] or server.round != 3:
                return new
            if value is None:
                return state.replace(weights={"w": torch.ones(1) * 50.0**1000})
            spoilt = {name: t.clone() for name, t in new["weights"].items()}
            next(iter(spoilt.values())).view(-1)[0] = value
            return new.replace(weights=spoilt)

    options: dict[str, Any] = {"rounds": 4, "algorithm": Breaking()}
    with pytest.raises(fedkf.FedkfError, match=r"round 3 came to .*; it does not count") as caught:
        fedkf.run(settings, out=tmp_path / "run", **options)
    assert caught.value.exit_code == 1
    assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == 2
    broken[0] = False
    fedkf.run(settings, out=tmp_path / "run", resume=True, **options)
    fedkf.run(settings, out=tmp_path / "whole", **options)
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")
