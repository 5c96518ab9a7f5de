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
from fedkf.core.errors import UserError
from fedkf.paper.distill import choose, distill
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import resolve
from fedkf.runs.engines import choose_workers
from fedkf.runs.setup import load_source, make_data, settle

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


@pytest.fixture
def cublas(monkeypatch: pytest.MonkeyPatch) -> str:
    """What CUDA reads when it starts; nobody has set it."""
    name = "CUBLAS_WORKSPACE_CONFIG"
    monkeypatch.setenv(name, "")  # so that it is unset again afterwards
    monkeypatch.delenv(name)
    return name


def test_whatever_works_on_a_gpu_has_told_it_to_repeat_itself(npz: Path, cublas: str) -> None:
    for device, told in (("cpu", None), ("cuda", ":4096:8")):
        data = {"source": "npz", "path": str(npz), "clients": 2, "min_samples": 2}
        config = resolve({"data": data, "engine": {"device": device}})
        source = load_source(config)
        config = settle(config, source)
        Assembly.of(config, make_data(config, source))
        assert os.environ.get(cublas) == told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_samples_for_a_device_that_is_not_there_are_refused_at_once(npz: Path, cublas: str) -> None:
    config = resolve({"data": {"source": "npz", "path": str(npz), "clients": 2, "min_samples": 2}})
    source = load_source(config)
    data = make_data(settle(config, source), source)
    with pytest.raises(UserError, match="'cuda:1' but PyTorch finds no CUDA here"):
        data.resident("cuda:1", torch.contiguous_format)
    distilled = resolve(config.model_dump(mode="json"), {"engine.device": "cuda"})
    with pytest.raises(UserError, match="PyTorch finds no CUDA here"):
        distill(distilled, choose("works", "lenet5"))
    assert os.environ[cublas] == ":4096:8"


def test_a_gpu_repeats_itself_and_leaves_pytorch_as_it_was(
    monkeypatch: pytest.MonkeyPatch, cublas: str
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
    prepare("cpu")
    assert cublas not in os.environ
    prepare("cuda")
    assert os.environ[cublas] == ":4096:8"
