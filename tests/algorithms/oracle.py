"""Runs the package's algorithms in a `World`, so that each round can be held against an oracle.

An oracle is a function of the world that yields the global model after every round. It imports
nothing of the package; `agree` runs the algorithm and compares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from world import State, World

import fedkf
from fedkf.core.client import Call, ClientData, ClientHost, Reply
from fedkf.core.defence import Defence
from fedkf.core.federation import Federation
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Payload, Weights
from fedkf.core.random import Streams
from fedkf.core.records import Round
from fedkf.core.schedule import Schedule
from fedkf.core.server import Accept, Channel, Server, Storage
from fedkf.core.task import Task, Training
from fedkf.core.versions import Versions
from fedkf.engines.in_process import InProcessEngine

TOLERANCE = 1e-10


@dataclass
class Trace:
    """Everything of a run, by round: entry 0 is the start, entry t what round t left."""

    models: list[Weights] = field(default_factory=list)
    """The algorithm's own global model, "aca"."""
    overall: list[Weights | None] = field(default_factory=list)
    """T1's mean, "oca"; None before round 1."""
    states: list[Payload] = field(default_factory=list)
    """What the server keeps."""
    kept: list[dict[int, Payload]] = field(default_factory=list)
    """What the clients keep, those that keep something."""
    downs: list[Payload] = field(default_factory=lambda: [Payload()])
    """What went down for training."""
    uploads: list[dict[int, Payload]] = field(default_factory=lambda: [{}])
    """What came up from training."""
    records: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    """The lines of rounds.jsonl; `records[t]["readouts"]` holds accuracies by client."""
    final: dict[str, Weights] = field(default_factory=dict)
    """The readouts after the algorithm's last change."""


class Watched(InProcessEngine):
    """An engine in this process that notes what crosses it in training."""

    def __init__(self, host: ClientHost, trace: Trace) -> None:
        super().__init__(host)
        self.trace = trace

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        def noted(reply: Reply) -> bool:
            call = reply.call
            if call.step == "local_update":
                if call.round == len(self.trace.downs):
                    self.trace.downs.append(down)
                    self.trace.uploads.append({})
                assert reply.upload is not None
                self.trace.uploads[call.round][call.client] = reply.upload
            return accept(reply)

        super().exchange(calls, down, noted)


class Planned(Federation):
    """The package's round loop with the world's plan of who takes part."""

    trace: Trace
    plan: Sequence[Sequence[int]]

    def select(self, round: int) -> list[int]:
        return list(self.plan[round - 1])

    def _round(self, round: int, state: Payload) -> Payload:
        if round == 1:
            self.note(state)
        new = super()._round(round, state)
        self.note(new)
        return new

    def note(self, state: Payload) -> None:
        versions = self.server.storage.states
        kept = {k: versions.load(k, version) for k, version in sorted(versions.latest.items())}
        self.trace.models.append(self.algorithm.model(state))
        self.trace.overall.append(self.server.overall)
        self.trace.states.append(state)
        self.trace.kept.append(kept)


class Notes:
    """A checkpoint that keeps the records and nothing else."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Round]
    ) -> Round:
        record = sign()
        self.trace.records.append(record.as_json())
        return record


class Own(Task):
    """A task with the world's own loss of logits: for quadratics, the mean of their values."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.mean() if outputs.ndim == 1 else super().loss(outputs, targets)


@contextmanager
def double() -> Iterator[None]:
    """Everything in float64, draws of chance included, which oracles are told to make so too."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def run(world: World, algorithm: fedkf.Algorithm, **schedule: Any) -> Trace:
    """The algorithm in this world, through the package's own loop, server, clients and T1.

    `schedule` are settings of the loop, such as T1's `scope` (here `seen` unless given).
    """
    with tempfile.TemporaryDirectory() as folder, double():
        return _run(world, algorithm, Path(folder), {"scope": "seen", **schedule})


def _run(world: World, algorithm: fedkf.Algorithm, folder: Path, schedule: dict[str, Any]) -> Trace:
    trace, streams = Trace(), Streams(world.seed)
    training = Training(
        local_epochs=world.epochs,
        batch_size=world.batch,
        lr=world.lr,
        momentum=world.momentum,
        weight_decay=world.weight_decay,
    )
    more = dict(world.more)
    proxy = more.pop("proxy", None)
    task = Own(world.make_model, world.shape, world.classes, training, streams, **more)
    data = [ClientData(*a, *b) for a, b in zip(world.data, world.tests, strict=True)]
    host = ClientHost(algorithm, task, Versions(folder), data.__getitem__)
    engine = Watched(host, trace)
    sizes = dict(enumerate(world.sizes))
    server = Server(task, sizes, Channel(engine), Storage(host.states), Defence("none"), proxy)
    plan = Schedule(world.rounds, **schedule)
    federation = Planned(algorithm, server, plan, Notes(trace))
    federation.trace, federation.plan = trace, world.active
    trace.final = federation.run()
    return trace


def agree(
    world: World,
    algorithm: fedkf.Algorithm,
    expected: Iterable[State],
    tolerance: float = TOLERANCE,
    **schedule: Any,
) -> Trace:
    """Every round's global model is the oracle's, and the rounds are worth comparing.

    Returns the run, for what else there is to compare: T1, states, uploads, accuracies.
    """
    trace = run(world, algorithm, **schedule)
    same(trace.models[1:], expected, tolerance)
    for before, after in zip(trace.models, trace.models[1:], strict=False):
        moved = max(float((after[n] - before[n]).abs().max()) for n in world.learned())
        assert moved > 1e4 * tolerance, "a round that changes nothing shows nothing"
    return trace


def same(
    ours: Sequence[Mapping[str, Tensor] | None],
    theirs: Iterable[Mapping[str, Tensor]],
    tolerance: float = TOLERANCE,
) -> None:
    """Tensors agree round by round; the first that does not is named."""
    pairs = list(zip(ours, theirs, strict=True))
    for number, (a, b) in enumerate(pairs, 1):
        assert a is not None
        assert a.keys() == b.keys(), f"round {number}"
        for name, tensor in b.items():
            away = float((a[name].double() - tensor.double()).abs().max()) if tensor.numel() else 0
            assert away <= tolerance, f"round {number}: {name} is off by {away:.3g}"
            assert bool(torch.isfinite(a[name].double()).all()), f"round {number}: {name}"
