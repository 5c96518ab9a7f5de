"""What a client's step of every algorithm costs, in steps of FedAvg taken in turns with it.

One client with 512 samples in batches of 64, ten epochs of LeNet-5 on one thread, letters' settings
with the cheap generator: the turn of a client of results/rivals. Everything that the client does
counts (a pool made once a turn, a generator's steps), nothing that the server does. The clock is
that of the processor, so that other work on the machine matters little.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from fedkf import algorithms
from fedkf.charts.labels import algorithm_label
from fedkf.core.algorithm import Algorithm
from fedkf.core.server import Storage
from fedkf.data.federated import FederatedData
from fedkf.engines.in_process import InProcessEngine
from fedkf.paper.operations import Kept
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import read, resolve
from fedkf.runs.load import load
from fedkf.runs.setup import Objects, make_algorithm

SAMPLES, SHAPE, CLASSES = 512, (1, 32, 32), 26
FIRST = 10
"""The first round that is timed, after round 1: some begin to distil after a few rounds."""


class Timed:
    """An algorithm as the clients' side sees it, with a clock of processor time."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.seconds = algorithm, 0.0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.algorithm, name)
        return self._clocked(value) if callable(value) else value

    def _clocked(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def clocked(*given: Any) -> Any:
            began = time.process_time()
            try:
                return work(*given)
            finally:
                self.seconds += time.process_time() - began

        return clocked


def made_data() -> FederatedData:
    """One client's samples, and nothing to test."""
    random = torch.Generator().manual_seed(0)
    images = torch.rand((SAMPLES, *SHAPE), generator=random)
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=random)
    ends, none = np.array([0, SAMPLES]), np.array([0, 0])
    names = [str(k) for k in range(CLASSES)]
    return FederatedData(images, labels, ends, images[:0], labels[:0], none, ["client"], names)


def turns(name: str) -> Iterator[float]:
    """Seconds of a client's turn in one round after the other."""
    settings = {"algorithm.name": name, "generator.preset": "lite", "engine.workers": 0}
    config, data = resolve(read("letters")[0], settings), made_data()
    proxy = data.images if algorithms.get(name).needs_proxy_data else None
    algorithm = replace(make_algorithm(config), **algorithms.get(name).tiny)  # spares the server
    assembly, states = Assembly.of(config, data, Objects(algorithm), proxy), Kept()
    clock = Timed(algorithm)
    timed = replace(assembly, algorithm=clock)  # type: ignore[arg-type]
    server = assembly.server(InProcessEngine(timed.host_of(data, states)), Storage(states))
    state = algorithm.start(server)
    for round in itertools.chain([1], itertools.count(FIRST)):
        clock.seconds = 0.0
        server.begin(round, [0])
        state = algorithm.round(server, state)
        server.overall = server.trained[0]
        yield clock.seconds


def cost(name: str, fedavg: Iterator[float], repetitions: int) -> tuple[float, float]:
    """Seconds of a turn, and how many of FedAvg's turns it is: medians."""
    own = turns(name)
    next(own)
    spent = [(next(fedavg), next(own)) for _ in range(repetitions)]
    return median(b for _, b in spent), median(b / a for a, b in spent)


def measure(repetitions: int, records: Path | None) -> None:
    """Every algorithm, one after the other; the load says whether the machine was idle."""
    torch.set_num_threads(1)
    before, costs, fedavg = load(), dict[str, float](), turns("fedavg")
    next(fedavg)
    print(f"load before: {before:.1f}\n\n| a client's turn | ms a step | FedAvg's steps |")
    print("|---|---|---|")
    for name in algorithms.names():
        seconds, costs[name] = cost(name, fedavg, repetitions)
        each = 1000 * seconds / (10 * SAMPLES / 64)
        print(f"| {algorithm_label(name)} | {each:.1f} | {costs[name]:.2f} |", flush=True)
    if records is not None:
        records.mkdir(parents=True, exist_ok=True)
        content = {"load": before, "steps": {name: round(c, 3) for name, c in costs.items()}}
        (records / "steps.json").write_text(json.dumps(content, indent=2) + "\n")
