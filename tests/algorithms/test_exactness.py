"""What makes a step fast does not change what it computes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fedkf
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training
from fedkf.models import products
from fedkf.models.generator import ReleasedGenerator
from fedkf.models.lenet import LeNet5

BATCH, NOISE, CLASSES, SHAPE, WIDTH = 8, 10, 5, (1, 32, 32), 6


@pytest.fixture
def straightforward(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    sys.modules.pop("straightforward", None)
    import straightforward as module  # type: ignore[import-not-found, unused-ignore]

    return module


def both(
    straightforward: Any, steps: int, dtype: torch.dtype, algorithm: fedkf.Algorithm
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All tensors after the same steps by ours and by the straightforward program."""
    random = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH * steps, *SHAPE, generator=random).to(dtype)
    labels = torch.randint(0, CLASSES, (BATCH * steps,), generator=random)
    task = Task(
        make_model=lambda: LeNet5(SHAPE, CLASSES).to(dtype),
        shape=SHAPE,
        classes=CLASSES,
        training=Training(batch_size=BATCH, lr=0.05),
        streams=Streams(3),
        make_generator=lambda: ReleasedGenerator(SHAPE, NOISE, WIDTH, [0.2], [0.4]).to(dtype),
        noise=NOISE,
        channels_last=True,
    )
    last = images.to(memory_format=torch.channels_last)
    client = Client(4, 2, ClientData(last, labels, last[:0], labels[:0]), task, task.streams)
    w0 = task.initial_weights
    teacher = {name: tensor * 1.1 for name, tensor in w0.items()}
    down = Payload(weights=w0).add("teacher", teacher, "weights")
    upload = algorithm.local_update(client, down)
    ours = dict(upload["weights"])

    order = torch.randperm(len(labels), generator=client.random("batches")).split(BATCH)
    batches = [(images[index], labels[index]) for index in order]
    student = straightforward.LeNet(CLASSES).to(dtype)
    student.load_state_dict(w0)
    if isinstance(algorithm, fedkf.FedKF):
        assert client.state is not None
        ours |= {f"g.{name}": tensor for name, tensor in client.state["generator"].items()}
        generator = straightforward.Generator(32, NOISE, WIDTH, 0.2, 0.4).to(dtype)
        generator.load_state_dict(task.initial_generator)
        stream = client.random("generator noise")
        noise = [torch.randn(BATCH, NOISE, generator=stream).to(dtype) for _ in batches]
        straightforward.fedkf(student, teacher, generator, batches, noise, 0.05)
        theirs = dict(student.state_dict())
        theirs |= {f"g.{name}": tensor for name, tensor in generator.state_dict().items()}
    else:
        straightforward.fedavg(student, batches, 0.05)
        theirs = dict(student.state_dict())
    return ours, theirs


RELEASED = fedkf.FedKF(**fedkf.FedKF.fidelity["released"])


@pytest.fixture(params=["fedavg", "fedkf, narrow", "fedkf, wide"])
def algorithm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> fedkf.Algorithm:
    """Wide generators compute their convolutions as products; here, narrow ones are made to."""
    if request.param == "fedkf, wide":
        monkeypatch.setattr(products, "WIDE", 1)
    return fedkf.FedAvg() if request.param == "fedavg" else RELEASED


def test_fifty_steps_in_float64_agree_to_1e_9(
    straightforward: Any, algorithm: fedkf.Algorithm
) -> None:
    ours, theirs = both(straightforward, 50, torch.float64, algorithm)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name] - tensor).abs().max() < 1e-9, name


def test_one_step_in_float32_agrees_to_1e_5(
    straightforward: Any, algorithm: fedkf.Algorithm
) -> None:
    ours, theirs = both(straightforward, 1, torch.float32, algorithm)
    for name, tensor in theirs.items():
        if not name.startswith("g.") or "running" in name:  # Adam's first step is ± its rate
            scale = tensor.abs().max().clamp_min(1e-3)
            assert (ours[name] - tensor).abs().max() / scale < 1e-5, name
