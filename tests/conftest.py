"""Small real experiments that the tests share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from browsers import browser, ear, page  # noqa: F401 (fixtures for tests/browser)
from hypothesis import settings as hypothesis_settings
from torch import nn

import fedkf
from fedkf.core.client import Client
from fedkf.core.payload import Payload
from fedkf.metrics import METRICS, OURS
from fedkf.metrics.sites import OURS_OF_SITES, SITE_METRICS
from fedkf.runs.config import resolve
from fedkf.runs.setup import load_source, make_data, make_task, settle

# How long a case takes depends on the machine and says nothing about the code.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

# A shell starts its background jobs with Ctrl-C ignored, and so would be the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

Settings = dict[str, Any]


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _our_metrics_only() -> Iterator[None]:
    """Metrics that a test adds are gone after it."""
    yield
    tables: list[tuple[dict[str, Any], frozenset[str]]]
    tables = [(METRICS, OURS), (SITE_METRICS, OURS_OF_SITES)]
    for table, ours in tables:
        for name in set(table) - ours:
            table.pop(name)


@pytest.fixture(scope="session")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety 16×16 images of three classes that a model can tell apart."""
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    images = random.random((90, 16, 16)).astype(np.float32) * 0.5
    for k, label in enumerate(labels):
        images[k, 5 * label : 5 * label + 5] += 0.5
    path = tmp_path_factory.mktemp("data") / "stripes.npz"
    np.savez(path, images=images, labels=labels)
    return path


@pytest.fixture
def settings(npz: Path) -> Settings:
    return tiny(npz)


def tiny(npz: Path) -> Settings:
    """Six clients, half of them active, three rounds, everything small."""
    return {
        "data": {"source": "npz", "path": str(npz), "clients": 6, "alpha": 0.5, "min_samples": 3},
        "algorithm": {"name": "fedkf"},
        "federation": {
            "rounds": 3,
            "fraction": 0.5,
            "local_epochs": 2,
            "batch_size": 8,
            "lr": 0.05,
        },
        "generator": {"preset": "paper", "width": 4, "noise": 8},
        "engine": {"workers": 0},
    }


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run a command in this process."""
    from fedkf.cli.app import main

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fedkf", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


class Unsteady(nn.Module):
    """BatchNorm and dropout: layers that remember and layers that draw."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 5, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(4 * 6 * 6, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x))
        return out


def make_client(
    settings: Settings, round: int, state: Payload | None = None, number: int = 0
) -> Client:
    """A client of an experiment, as a step of an algorithm sees it."""
    config = resolve(settings)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    task = make_task(config, data, fedkf.FedKF())
    return Client(number, round, data.client(number), task, state)


@pytest.fixture(scope="session")
def three_runs(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of finished runs on the same data: fedavg, fedkf and local."""
    import fedkf

    folder = tmp_path_factory.mktemp("runs")
    for algorithm in ("fedavg", "fedkf", "local"):
        content = tiny(npz) | {"algorithm": {"name": algorithm}}
        fedkf.run(content, out=folder / algorithm)
    return folder


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "/browser/" in r.nodeid]
    if skipped:
        reason = skipped[0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"{len(skipped)} browser tests were skipped: {reason}")


def model_bytes(folder: Path) -> dict[str, bytes]:
    """The final models of a run, byte for byte."""
    return {p.name: p.read_bytes() for p in sorted((folder / "models").glob("*.safetensors"))}
