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
from fedkf.core.samples import Sampling
from fedkf.core.task import Task, Training
from fedkf.distillation.generators import Generation, TrainedGenerator
from fedkf.distillation.losses import kl_loss
from fedkf.models import convolutions
from fedkf.models.generator import ReleasedGenerator
from fedkf.models.lenet import LeNet5
from fedkf.models.resnet import ResNet8

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
    generation = Generation(
        lambda: ReleasedGenerator(SHAPE, NOISE, WIDTH, [0.2], [0.4]).to(dtype), NOISE
    )
    task = Task(
        make_model=lambda: LeNet5(SHAPE, CLASSES).to(dtype),
        shape=SHAPE,
        classes=CLASSES,
        training=Training(batch_size=BATCH, lr=0.05),
        streams=Streams(3),
        channels_last=True,
        parts=[Sampling(TrainedGenerator), generation],
    )
    last = images.to(memory_format=torch.channels_last)
    client = Client(4, 2, ClientData(last, labels, last[:0], labels[:0]), task)
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
        generator.load_state_dict(generation.initial(task))
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
        monkeypatch.setattr(convolutions, "WIDE", 1)
    return fedkf.FedAvg() if request.param == "fedavg" else RELEASED


def test_fifty_steps_in_float64_agree_to_1e_9(
    straightforward: Any, algorithm: fedkf.Algorithm
) -> None:
    ours, theirs = both(straightforward, 50, torch.float64, algorithm)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name] - tensor).abs().max() < 1e-9, name


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        ("lenet5", torch.float32, 1e-5),
        # Through its norms of one channel, single precision leaves three digits of a gradient.
        ("resnet8", torch.float64, 1e-9),
    ],
)
def test_outputs_and_gradients_agree(
    straightforward: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    dtype: torch.dtype,
    tolerance: float,
    wide: bool,
) -> None:
    """A step's passes: teacher and generator, then the student on both batches."""
    if wide:
        monkeypatch.setattr(convolutions, "WIDE", 1)
    torch.manual_seed(0)
    ours: Any = LeNet5(SHAPE, CLASSES) if name == "lenet5" else ResNet8((3, 32, 32), CLASSES)
    theirs = straightforward.LeNet(CLASSES) if name == "lenet5" else straightforward.ResNet(CLASSES)
    channels = 1 if name == "lenet5" else 3
    mean, std = [0.25] * channels, [0.5] * channels
    generator = ReleasedGenerator((channels, 32, 32), NOISE, WIDTH, mean, std)
    plain = straightforward.Generator(32, NOISE, WIDTH, 0.25, 0.5, channels)
    names = theirs.state_dict()  # ResNet-8's blocks have other names there
    theirs.load_state_dict(dict(zip(names, ours.state_dict().values(), strict=True)))
    plain.load_state_dict(generator.state_dict())
    noise = torch.randn(BATCH, NOISE, dtype=dtype)
    x = torch.randn(BATCH, channels, 32, 32, dtype=dtype)
    y = torch.randint(0, CLASSES, (BATCH,))
    found: dict[str, torch.Tensor] = {}
    expected: dict[str, torch.Tensor] = {}
    sides: list[Any] = [
        (found, ours, generator, RELEASED.generator_loss, torch.channels_last),
        (expected, theirs, plain, straightforward.generator_loss, torch.contiguous_format),
    ]
    for values, model, draw, loss, layout in sides:
        for module in (model, draw):
            module.to(dtype).to(memory_format=layout)
        fake = draw(noise)
        features = model.features(fake)
        logits = model.classify(features)
        gradients = torch.autograd.grad(loss(features, logits), list(draw.parameters()))
        kl = kl_loss(logits.detach().softmax(1), model(fake.detach() + 0.1))
        local = model(x.to(memory_format=layout))
        total = torch.nn.functional.cross_entropy(local, y) + kl
        own = torch.autograd.grad(total, list(model.parameters()))
        values |= {"fake": fake, "features": features, "logits": logits, "local": local}
        values |= dict(zip(dict(generator.named_parameters()), gradients, strict=True))
        values |= {f"model {i}": gradient for i, gradient in enumerate(own)}
    for key, tensor in expected.items():
        # Batch norm takes away the biases before it: their gradients are nothing but rounding.
        scale = expected[key.replace("bias", "weight")].abs().max()
        assert (found[key] - tensor).abs().max() / scale < tolerance, key
