"""Every algorithm on Flower's simulation gives the bytes of the local engine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import model_bytes
from small import small

from fedkf import algorithms
from fedkf.runs.config import read, resolve
from fedkf.runs.experiment import execute

pytestmark = pytest.mark.deployment


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """One Ray cluster for all, for starting one takes longer than a tiny run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ray = shutil.which("ray", path=str(Path(sys.executable).parent))
    assert ray is not None
    start = [ray, "start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
    port = address.split(":")[1]
    more = ["--include-dashboard=false", "--disable-usage-stats", f"--port={port}"]
    subprocess.run([*start, *more], check=True, capture_output=True)
    try:
        yield address
    finally:
        subprocess.run([ray, "stop", "--force"], check=True, capture_output=True)


@pytest.mark.parametrize("name", algorithms.names())
def test_its_models_are_those_of_a_local_run(name: str, cluster: str, tmp_path: Path) -> None:
    content, _ = read("digits")
    chosen = small(name)
    execute(resolve(content, {**chosen, "engine.workers": 0}), tmp_path / "local")
    flower = {"engine.name": "flower", "engine.workers": 1, "engine.address": cluster}
    execute(resolve(content, {**chosen, **flower}), tmp_path / "flower")
    assert model_bytes(tmp_path / "flower") == model_bytes(tmp_path / "local")
