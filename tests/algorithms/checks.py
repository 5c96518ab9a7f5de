"""What every algorithm must withstand."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from conftest import Outcome, Settings, model_bytes
from torch import nn

import fedkf
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training


class Normed(nn.Module):
    """Batch norm and dropout, and no word of where its features are."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(shape[0], 4, 5, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.LazyLinear(8),
            nn.ReLU(),
        )
        self.body(torch.zeros(2, *shape))
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x))
        return out


def survives(
    settings: Settings,
    tmp_path: Path,
    name: str,
    model: Callable[..., nn.Module] | None = None,
    **options: Any,
) -> Any:
    """Workers or none, killed in the midst or not, the models are the same to the byte."""
    content = {**settings, "algorithm": {"name": name, **options}}
    whole = fedkf.run(content, model=model, rounds=4, out=tmp_path / "whole")

    def die(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            fedkf.run(
                content, model=model, rounds=4, workers=2, out=tmp_path / "killed", on_round=die
            )
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    result = fedkf.run(
        content, model=model, rounds=4, workers=2, out=tmp_path / "killed", resume=True
    )
    assert len(result.history) == 4
    assert all(record["refused"] == [] for record in result.history)
    assert set(result.summary["readouts"]) == {"aca", "oca"}
    assert model_bytes(tmp_path / "killed") == model_bytes(tmp_path / "whole")
    assert len(model_bytes(tmp_path / "whole")) == 2
    return whole


def is_fedavg(
    settings: Settings,
    tmp_path: Path,
    name: str,
    model: Callable[..., nn.Module] | None = None,
    **options: Any,
) -> None:
    """The algorithm with these hyperparameters is FedAvg byte for byte, in both readouts."""
    content = {**settings, "algorithm": {"name": name, **options}}
    fedkf.run(content, model=model, rounds=4, out=tmp_path / "ours")
    fedkf.run(settings, algorithm="fedavg", model=model, rounds=4, out=tmp_path / "plain")
    assert model_bytes(tmp_path / "ours") == model_bytes(tmp_path / "plain")
    assert len(model_bytes(tmp_path / "ours")) == 2


def refuses(cli: Callable[..., Outcome], name: str, key: str, value: object, words: str) -> None:
    """A value out of range ends with exit code 2 and a sentence that says what is allowed."""
    given = (f"algorithm.name={name}", f"algorithm.{key}={value}")
    outcome = cli("run", "digits", "--set", given[0], "--set", given[1], "--out", "/nonexistent")
    assert outcome.code == 2
    assert f"algorithm.{key} is " in outcome.err
    assert words in outcome.err
    unknown = cli("run", "digits", "--set", given[0], "--set", "algorithm.nonsense=1")
    assert unknown.code == 2
    assert "it takes" in unknown.err
    assert key in unknown.err


def one_step(
    algorithm: fedkf.Algorithm,
    make_model: Callable[[], nn.Module],
    x: list[list[float]],
    y: list[int],
    down: Payload,
    lr: float = 1.0,
    state: Payload | None = None,
    round: int = 2,
) -> tuple[Payload, Client]:
    """What one full-batch step of a client uploads, and the client."""
    inputs, labels = torch.tensor(x), torch.tensor(y)
    training = Training(batch_size=len(y), lr=lr)
    task = Task(make_model, tuple(inputs.shape[1:]), 2, training, Streams(0))
    data = ClientData(inputs, labels, inputs[:0], labels[:0])
    client = Client(0, round, data, task, state)
    return algorithm.local_update(client, down), client
