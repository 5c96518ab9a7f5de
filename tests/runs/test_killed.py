"""What kill -9 leaves of a run's folder, at whatever moment it comes."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from conftest import Settings
from kills import killed_at_every_step

import fedkf
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import read_card, write_models


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


def test_a_model_whose_replacement_was_killed_can_be_loaded(tmp_path: Path) -> None:
    """The earlier one or the new one; whatever is written next can be, too."""
    about = {"model": "linear", "shape": [1, 1, 2], "task": "classification"}
    card = {**about, "class_names": ["a", "b"], "mean": [0.0], "std": [1.0]}

    def write(value: float) -> None:
        weights = {"linear.weight": torch.full((2, 2), value), "linear.bias": torch.zeros(2)}
        write_models(tmp_path, {"aca": weights, "oca": weights}, card)

    def values() -> list[float]:
        found = [fedkf.load(tmp_path, name) for name in ("aca", "oca")]
        return [model.model.state_dict()["linear.weight"][0, 0].item() for model in found]

    write(1.0)
    assert "earlier" not in read_card(tmp_path)
    for _ in killed_at_every_step(lambda: write(2.0)):
        assert set(values()) <= {1.0, 2.0}
        for _ in killed_at_every_step(lambda: write(3.0)):
            assert set(values()) <= {1.0, 2.0, 3.0}
        write(1.0)
        assert values() == [1.0, 1.0]
    assert values() == [2.0, 2.0]
