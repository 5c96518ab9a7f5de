"""Devices other than the CPU, of which none is here: one that pretends, and what CUDA is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedkf.core.determinism import exact, prepare
from fedkf.runs.config import resolve
from fedkf.runs.engines import choose_workers

TRIED = ["fedkf", "fedkf+", "fedgen", "feddf", "ccvr", "scaffold", "pfedme", "fedntd"]
"""Algorithms with tensors of their own beside the model's; the program tries any."""


@pytest.fixture(scope="module")
def told(npz: Path) -> dict[str, dict[str, object]]:
    """What the program says of each algorithm."""
    program = Path(__file__).with_name("on_pretended_device.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, npz, *TRIED],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("name", TRIED)
def test_no_step_mixes_a_device_with_the_cpu(name: str, told: dict[str, dict[str, object]]) -> None:
    found = told[name]
    assert "error" not in found, found["error"]
    # Its arithmetic is the CPU's; only our own convolutions for CPUs are not used there.
    assert float(str(found["apart"])) < 1e-6


def test_no_worker_is_forked_where_its_parent_has_used_the_device(
    told: dict[str, dict[str, object]],
) -> None:
    assert "set engine.workers to 0" in str(told["workers"]["refused"])


def test_on_a_gpu_clients_take_turns_unless_workers_are_asked_for() -> None:
    gpu = {"engine": {"device": "cuda"}}
    assert choose_workers(resolve(gpu)) == 0
    assert choose_workers(resolve({"engine": {"device": "cuda", "workers": 2}})) == 2
    assert choose_workers(resolve({})) >= 1


def test_a_gpu_repeats_itself_and_leaves_pytorch_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with exact("cuda"):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.backends.cudnn.benchmark
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.benchmark
    with exact("cpu"):
        assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    prepare("cpu")
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    prepare("cuda")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
