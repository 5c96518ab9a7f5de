"""Seconds per training step on one thread: ours, straightforward PyTorch, and the machine's limit.

    python benchmarks/step.py [--repetitions 7] [--records results/frontier]
    python benchmarks/step.py --all [--repetitions 3] [--records results/rivals]

Batches of 64; LeNet-5 on 1×32×32 with 26 classes, ResNet-8 on 3×32×32 with 10. Both sides compute
the same (a test proves it) and fetch their shuffled batches, in turns; medians. `of peak` is the
share that our step reaches of the floating-point operations per second of a matrix product of
1024×1024, taken in turns with it. The costs of cheaper steps are also left in the records. `--all`
measures a client's step of every algorithm instead, in some three minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import every_step
import straightforward
import torch
from alternate import Side, medians, serve
from torch.utils.flop_counter import FlopCounterMode

import fedkf
from fedkf.core.allocator import keep_freed_memory
from fedkf.core.client import Client, ClientData
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.samples import Sampling
from fedkf.core.task import Task, Training
from fedkf.distillation.generators import Generation, TrainedGenerator
from fedkf.distillation.samples import Field, Noise, Warp
from fedkf.models.generator import DCGAN, ReleasedGenerator
from fedkf.models.lenet import LeNet5
from fedkf.models.resnet import ResNet8
from fedkf.runs.schema import GENERATOR_PRESETS

BATCH, NOISE, SIDE = 64, 100, 32
PEAK, PRODUCTS = 1024, 10
MODELS = {"lenet5": (1, 26), "resnet8": (3, 10)}
SAMPLES = {"warp": Warp, "field": Field, "noise": Noise}
LITE = GENERATOR_PRESETS["lite"]


@dataclass(frozen=True)
class Case:
    """What is timed, as text `model/algorithm/width/batch/every/reuse` for another process."""

    model: str
    algorithm: str
    width: int = 128
    batch: int = BATCH
    every: int = 1
    reuse: int = 1
    steps: int = 8

    def text(self) -> str:
        return "/".join(str(v) for v in self.__dict__.values())

    @staticmethod
    def parse(text: str) -> Case:
        model, algorithm, *numbers = text.split("/")
        return Case(model, algorithm, *map(int, numbers))


def make_client(case: Case) -> Client:
    """A client of ours with exactly so many batches."""
    channels, classes = MODELS[case.model]
    shape = (channels, SIDE, SIDE)
    random = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH * case.steps, *shape, generator=random)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (len(images),), generator=random)
    make = LeNet5 if case.model == "lenet5" else ResNet8
    generator = DCGAN if case.algorithm == "text" else ReleasedGenerator
    task = Task(
        make_model=lambda: make(shape, classes),
        shape=shape,
        classes=classes,
        training=Training(local_epochs=1, batch_size=BATCH, lr=0.01),
        streams=Streams(0),
        parts=[
            Sampling(SAMPLES.get(case.algorithm, TrainedGenerator), case.batch, case.reuse),
            Generation(lambda: generator(shape, NOISE, case.width), NOISE, every=case.every),
        ],
        mean=[0.0] * channels,
        std=[1.0] * channels,
        channels_last=True,
    )
    return Client(0, 2, ClientData(images, labels, images[:0], labels[:0]), task, task.streams)


def ours(case: Case) -> Callable[[], None]:
    client = make_client(case)
    algorithm: fedkf.Algorithm = fedkf.FedAvg()
    if case.algorithm != "fedavg":
        fidelity = "text" if case.algorithm == "text" else "released"
        algorithm = fedkf.FedKF(**fedkf.FedKF.fidelity[fidelity])
    weights = client.task.initial_weights
    down = Payload(weights=weights).add("teacher", weights, "weights")

    def run() -> None:
        client.state = None
        client.steps = 0
        algorithm.local_update(client, down)

    return run


def theirs(case: Case) -> Callable[[], None]:
    channels, classes = MODELS[case.model]
    data = make_client(case).data
    images, labels = data.images.contiguous(), data.labels
    make = straightforward.LeNet if case.model == "lenet5" else straightforward.ResNet
    student = make(classes)
    generator = straightforward.Generator(SIDE, NOISE, case.width, 0.0, 1.0, channels)
    weights = student.state_dict()

    def run() -> None:
        order = torch.randperm(len(labels)).split(BATCH)
        batches = ((images[index], labels[index]) for index in order)
        if case.algorithm == "fedavg":
            straightforward.fedavg(student, batches, 0.01)
            return
        noise = [torch.randn(BATCH, NOISE) for _ in order]
        straightforward.fedkf(student, weights, generator, batches, noise, 0.01)

    return run


def product() -> Callable[[], None]:
    a, out = torch.randn(PEAK, PEAK), torch.empty(PEAK, PEAK)

    def run() -> None:
        for _ in range(PRODUCTS):
            torch.mm(a, a, out=out)

    return run


def serve_side(name: str, text: str) -> None:
    torch.set_num_threads(1)
    case = Case.parse(text)
    if name == "ours":
        keep_freed_memory()
    work = {"ours": lambda: ours(case), "theirs": lambda: theirs(case), "peak": product}[name]()
    serve(work, PRODUCTS if name == "peak" else case.steps)


def operations(case: Case) -> float:
    """Floating-point operations of one of our steps."""
    run = ours(case)
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() / case.steps


def measure(case: Case, sides: tuple[str, ...], repetitions: int) -> dict[str, float]:
    started = {
        name: Side([sys.executable, __file__, "--side", name, case.text()]) for name in sides
    }
    return medians(started, repetitions)


CHEAPER = {
    "fedavg": Case("lenet5", "fedavg", steps=32),
    "width16-batch16": Case("lenet5", "fedkf", LITE["width"], LITE["batch_size"], steps=32),
    "width16-batch16-text": Case("lenet5", "text", LITE["width"], LITE["batch_size"], steps=32),
    "width16-batch16-reuse2": Case("lenet5", "fedkf", 16, 16, 1, 2, 32),
    "width16-batch32": Case("lenet5", "fedkf", 16, 32, steps=16),
    "width8": Case("lenet5", "fedkf", 8, steps=16),
    "width16": Case("lenet5", "fedkf", 16, steps=16),
    "width16-every4": Case("lenet5", "fedkf", 16, every=4, steps=16),
    "width16-reuse4": Case("lenet5", "fedkf", 16, reuse=4, steps=16),
    "width32": Case("lenet5", "fedkf", 32, steps=8),
    "width64": Case("lenet5", "fedkf", 64, steps=4),
    "width128": Case("lenet5", "fedkf", 128, steps=2),
    "warp": Case("lenet5", "warp", steps=16),
    "warp-batch16": Case("lenet5", "warp", batch=16, steps=32),
    "field": Case("lenet5", "field", steps=16),
    "noise": Case("lenet5", "noise", steps=16),
}
"""The points of benchmarks/frontier.py, and `lite` under `fidelity: text` with its DCGAN."""


def cheaper(repetitions: int, records: Path | None) -> None:
    """What FedKF's cheaper steps cost, in FedAvg's."""
    command = [sys.executable, __file__, "--side", "ours"]
    sides = {name: Side([*command, case.text()]) for name, case in CHEAPER.items()}
    seconds = medians(sides, repetitions)
    costs = {name: round(value / seconds["fedavg"], 2) for name, value in seconds.items()}
    print("\n| our step, LeNet-5, one thread | ms | FedAvg's steps |")
    print("|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {1000 * value:.1f} | {costs[name]:.1f} |", flush=True)
    if records is not None:
        (records / "steps.json").write_text(json.dumps(costs, indent=2) + "\n")


def main() -> None:
    if "--side" in sys.argv:
        return serve_side(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="a step of every algorithm")
    parser.add_argument("--repetitions", type=int, help="turns of each; 7, or 3 with --all")
    parser.add_argument("--records", type=Path, help="where steps.json goes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.all:
        return every_step.measure(given.repetitions or 3, given.records)
    given.repetitions = given.repetitions or 7
    cheaper(given.repetitions, given.records)
    print("\n| one step, one thread | straightforward | ours | ratio | GFLOP | of peak |")
    print("|---|---|---|---|---|---|")
    for case in (
        Case("lenet5", "fedavg", steps=32),
        Case("lenet5", "fedkf", 128),
        Case("lenet5", "fedkf", 16, steps=16),
        Case("resnet8", "fedavg", steps=1),
        Case("resnet8", "fedkf", 128, steps=1),
    ):
        seconds = measure(case, ("theirs", "ours", "peak"), given.repetitions)
        work = operations(case)
        share = work / seconds["ours"] / (2 * PEAK**3 / seconds["peak"])
        name = f"{case.model}, {case.algorithm}"
        name += f", width {case.width}" if case.algorithm == "fedkf" else ""
        plain, fast = 1000 * seconds["theirs"], 1000 * seconds["ours"]
        cells = f"{plain:.1f} ms | {fast:.1f} ms | {plain / fast:.2f}× | {work / 1e9:.2f}"
        print(f"| {name} | {cells} | {100 * share:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
