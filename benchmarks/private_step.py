"""What a private step costs, in plain ones, and who makes gradients of each sample fastest.

    python benchmarks/private_step.py [--repetitions 15]

LeNet-5 on 1×32×32 with 26 classes, batches of 64, one thread; everything takes turns in one
process, medians of its own time on the processor. Opacus needs layers that it knows, so that it has
the straightforward LeNet-5; `torch.func` is measured with that one, too. All of them end in the sum
of clipped gradients.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace

import straightforward
import torch
from step import BATCH, LITE, Case, make_client
from torch import Tensor, nn
from torch.nn import functional as F

import fedkf
from fedkf.core.client import Client, ClientData
from fedkf.core.gradients import Some, clipped_sum, sum_one_by_one
from fedkf.core.payload import Payload
from fedkf.core.privacy import Mechanism, Privacy
from fedkf.models.lenet import LeNet5

CLASSES, STEPS = 26, 4
Work = Callable[[], object]


def samples() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, 1, 32, 32, generator=random)
    return x, torch.randint(0, CLASSES, (BATCH,), generator=random)


def plain(model: nn.Module, layout: torch.memory_format) -> Work:
    x, y = samples()
    x, model = x.to(memory_format=layout), model.to(memory_format=layout)  # type: ignore[call-overload]

    def work() -> None:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()

    return work


def ours(model: nn.Module, layout: torch.memory_format) -> Work:
    x, y = samples()
    x, model = x.to(memory_format=layout), model.to(memory_format=layout)  # type: ignore[call-overload]
    return lambda: clipped_sum(model, F.cross_entropy, (x, y), 1.0)


def by_torch(model: nn.Module, layout: torch.memory_format) -> Work:
    x, y = samples()
    x = x.to(memory_format=layout)
    return lambda: sum_one_by_one(model, F.cross_entropy, Some(x, y, 1.0, None))


def by_opacus(model: nn.Module) -> Work:
    from opacus.grad_sample import GradSampleModule

    x, y = samples()
    hooked = GradSampleModule(model)

    def work() -> dict[str, Tensor]:
        hooked.zero_grad(set_to_none=True)
        F.cross_entropy(hooked(x), y, reduction="sum").backward()
        found = {name: p.grad_sample for name, p in hooked.named_parameters()}
        squares = torch.stack([g.flatten(1).square().sum(1) for g in found.values()]).sum(0)
        factor = (1.0 / squares.sqrt()).clamp(max=1.0)
        return {name: torch.tensordot(factor, g, dims=1) for name, g in found.items()}

    return work


def turn(private: bool, algorithm: fedkf.Algorithm) -> Work:
    """A client's turn of a few steps, as a run has it; what is told is a step's share."""
    case = Case("lenet5", algorithm.name, LITE["width"], LITE["batch_size"], steps=STEPS)
    client = make_client(case)
    task, data = client.task, client.data
    if private:
        size = len(data.labels)
        mechanism = Mechanism.of(size, task.training, 1.0)
        task = replace(task, parts=[*task.parts, Privacy(1.0, {size: mechanism})])
    weights = task.initial_weights
    down = Payload(weights=weights).add("teacher", weights, "weights")
    own = ClientData(data.images, data.labels, data.test_images, data.test_labels)
    return lambda: algorithm.local_update(Client(0, 2, own, task), down)


def medians(works: Mapping[str, Work], repetitions: int) -> dict[str, float]:
    """Milliseconds of each on the processor, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(repetitions + 2):
        for name, work in works.items():
            began = time.process_time()
            work()
            if number > 1:
                times[name].append(1e3 * (time.process_time() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Full backward hook")
    last = torch.channels_last

    def lenet() -> nn.Module:
        return LeNet5((1, 32, 32), CLASSES)

    gradients = {
        "ours, plain": plain(lenet(), last),
        "ours, all samples at once": ours(lenet(), last),
        "ours, each sample's by torch.func": by_torch(lenet(), last),
        "straightforward, plain": plain(straightforward.LeNet(CLASSES), torch.contiguous_format),
        "straightforward, torch.func": by_torch(
            straightforward.LeNet(CLASSES), torch.contiguous_format
        ),
        "straightforward, Opacus": by_opacus(straightforward.LeNet(CLASSES)),
    }
    found = medians(gradients, repetitions)
    print("| gradients of 64 samples, one thread | ms | of ours, plain |\n|---|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:.1f} | {value / found['ours, plain']:.1f} |")
    released = fedkf.FedKF(**fedkf.FedKF.fidelity["released"])
    turns = {
        f"{label}, {'private' if private else 'plain'}": turn(private, algorithm)
        for label, algorithm in (("FedAvg", fedkf.FedAvg()), ("FedKF, `lite`", released))
        for private in (False, True)
    }
    found = {name: value / STEPS for name, value in medians(turns, repetitions).items()}
    print("\n| a step of a turn | ms | plain FedAvg's |\n|---|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:.1f} | {value / found['FedAvg, plain']:.1f} |")


if __name__ == "__main__":
    main()
