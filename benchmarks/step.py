"""Seconds per training step, ours against straightforward PyTorch, on one thread.

    python benchmarks/step.py [--width 128] [--steps 8] [--repetitions 5]

Both do the same work (LeNet-5, 32×32, 26 classes, batches of 64) in alternating repetitions of one
process, so that whatever else the machine does hits both; medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import straightforward
import torch

import fedkf
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training
from fedkf.models.generator import ReleasedGenerator
from fedkf.models.lenet import LeNet5

BATCH, NOISE, CLASSES, SHAPE = 64, 100, 26, (1, 32, 32)


def make_client(width: int, steps: int) -> Client:
    """A client of ours with exactly `steps` batches."""
    random = torch.Generator().manual_seed(0)
    count = BATCH * steps
    images = torch.randn(count, *SHAPE, generator=random).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (count,), generator=random)
    task = Task(
        make_model=lambda: LeNet5(SHAPE, CLASSES),
        shape=SHAPE,
        classes=CLASSES,
        training=Training(local_epochs=1, batch_size=BATCH, lr=0.01),
        streams=Streams(0),
        make_generator=lambda: ReleasedGenerator(SHAPE, NOISE, width),
        noise=NOISE,
        channels_last=True,
    )
    data = ClientData(images, labels, images[:0], labels[:0])
    return Client(0, 2, data, task, task.streams)


def ours(client: Client, algorithm: fedkf.Algorithm) -> Callable[[], None]:
    weights = client.task.initial_weights
    down = Payload(weights=weights).add("teacher", weights, "weights")

    def run() -> None:
        client.state = None
        client.steps = 0
        algorithm.local_update(client, down)

    return run


def theirs(client: Client, width: int, distil: bool) -> Callable[[], None]:
    images = client.data.images.contiguous(memory_format=torch.contiguous_format).clone()
    batches = list(zip(images.split(BATCH), client.data.labels.split(BATCH), strict=True))
    student = straightforward.LeNet(CLASSES)
    generator = straightforward.Generator(32, NOISE, width, 0.0, 1.0)
    weights = student.state_dict()

    def run() -> None:
        if not distil:
            straightforward.fedavg(student, batches, 0.01)
            return
        noise = [torch.randn(BATCH, NOISE) for _ in batches]
        straightforward.fedkf(student, weights, generator, batches, noise, 0.01)

    return run


def compare(
    name: str, first: Callable[[], None], second: Callable[[], None], n: int, steps: int
) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for repetition in range(n + 1):
        for function, kept in zip((first, second), times, strict=True):
            began = time.perf_counter()
            function()
            if repetition:  # the first warms up
                kept.append((time.perf_counter() - began) / steps)
    plain, fast = (1000 * median(t) for t in times)
    print(f"{name:<28} {plain:9.1f} ms {fast:9.1f} ms {plain / fast:7.2f}×", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    client = make_client(given.width, given.steps)
    released = fedkf.FedKF(**fedkf.FedKF.fidelity["released"])
    print(f"{'one step, one thread':<28} {'straightforward':>12} {'ours':>10}   ratio")
    arguments = (given.repetitions, given.steps)
    compare("FedAvg", theirs(client, given.width, False), ours(client, fedkf.FedAvg()), *arguments)
    compare(
        f"FedKF, width {given.width}",
        theirs(client, given.width, True),
        ours(client, released),
        *arguments,
    )


if __name__ == "__main__":
    main()
