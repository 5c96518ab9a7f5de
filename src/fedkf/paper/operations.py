"""What an algorithm costs and discloses, measured by running it for two rounds on a tiny task.

Server, client and ledger are those of any run. The model is LeNet-5 and the generator that of the
paper, so that bytes are in proportion; there is one client with two batches of two samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf import algorithms
from fedkf.core.algorithm import Algorithm
from fedkf.core.payload import LEAKAGE, Payload
from fedkf.core.versions import Versions

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.data.federated import FederatedData
    from fedkf.runs.schema import Config

PASSES = (
    "classifier_forward",
    "classifier_backward",
    "generator_forward",
    "generator_backward",
)
BATCH, SHAPE, CLASSES, NOISE = 2, (1, 28, 28), 26, 100
ROUNDS = 2
"""The first round may differ, and a client's second turn starts from what it kept."""


@dataclass
class Passes:
    """Forward and backward passes, counted in samples by hooks on the first and the last layer.

    Each of the two counts half, so a pass through the predictor alone counts half. What happens
    from the first batch of a client's data to the last is inside the steps, the rest outside.
    """

    inside: dict[str, float] = field(default_factory=dict)
    outside: dict[str, float] = field(default_factory=dict)
    batches: int = 0
    clients: int = 0
    counts: dict[str, float] | None = None
    """Where passes are counted now; nowhere while the server works."""

    def watch(self, module: nn.Module, role: str) -> None:
        kind = "generator" if "generator" in role else "classifier"
        parts = module.modules()
        layers = [m for m in parts if next(m.parameters(recurse=False), None) is not None]
        for layer in (layers[0], layers[-1]):
            layer.register_forward_hook(lambda m, inputs, output: self._forward(kind, output))

    def _forward(self, kind: str, output: Tensor) -> None:
        if self.counts is None:
            return
        counts, half = self.counts, len(output) / 2
        count(counts, f"{kind}_forward", half)
        if output.requires_grad:
            output.register_hook(lambda gradient: count(counts, f"{kind}_backward", half))

    def during(self, work: Callable[[Client, Payload], Payload]) -> Callable[..., Payload]:
        """The same work on a client, with its passes counted."""

        def counted(client: Client, down: Payload) -> Payload:
            client.indices = self.following(client.indices)  # type: ignore[method-assign]
            self.counts, self.clients = self.outside, self.clients + 1
            try:
                return work(client, down)
            finally:
                self.counts = None

        return counted

    def following(self, batches: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def followed(purpose: str = "batches", own: bool = False) -> Iterator[Any]:
            for batch in batches(purpose, own):
                self.counts = self.inside
                self.batches += purpose == "batches"
                yield batch
            self.counts = self.outside

        return followed

    def reset(self) -> None:
        self.inside, self.outside, self.batches, self.clients = {}, {}, 0, 0

    def per_batch(self) -> dict[str, float]:
        """Passes over a batch for each batch of local data, as in the paper's table."""
        return {name: self.inside.get(name, 0) / BATCH / self.batches for name in PASSES}

    def per_client(self, size: int) -> dict[str, float]:
        """Passes over all of a client's data, outside the steps of a round."""
        return {name: self.outside.get(name, 0) / size / self.clients for name in PASSES}


def count(counts: dict[str, float], name: str, samples: float) -> None:
    counts[name] = counts.get(name, 0) + samples


class Counting:
    """The algorithm as the clients' side sees it: the same, with its passes counted."""

    def __init__(self, algorithm: Algorithm, passes: Passes) -> None:
        self.algorithm, self.passes = algorithm, passes

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.algorithm, name)
        return self.passes.during(value) if callable(value) else value


class Kept(Versions):
    """Private states of clients, in memory."""

    def __init__(self) -> None:
        self.folder, self.latest = Path(), {}
        self._changed, self._old, self._discarded = {}, [], set()
        self._payloads = dict[tuple[int, str], Payload]()

    def load(self, client: int, version: str) -> Payload:
        return self._payloads[client, version]

    def save(self, client: int, version: str, payload: Payload) -> None:
        self._payloads[client, version] = payload

    def discard(self, client: int, version: str) -> None:
        self._payloads.pop((client, version), None)


def measure(algorithm: Algorithm) -> dict[str, Any]:
    """One row of the table: what `algorithm` discloses, sends and computes."""
    from fedkf.core.server import Storage
    from fedkf.engines.in_process import InProcessEngine
    from fedkf.runs.assembly import Assembly
    from fedkf.runs.setup import Objects

    passes, states, data = Passes(), Kept(), tiny_data()
    given = Objects(algorithm=algorithm)
    proxy = data.images if algorithm.needs_proxy_data else None
    assembly = Assembly.of(tiny_config(), data, given, proxy)
    task = replace(assembly.task, on_resident=passes.watch)
    assembly = replace(assembly, task=task)
    counted = replace(assembly, algorithm=Counting(algorithm, passes))  # type: ignore[arg-type]
    engine = InProcessEngine(counted.host(states, data.client))
    server = assembly.server(engine, Storage(states))
    ledger, size = server.channel.ledger, len(data.labels)
    state = algorithm.start(server)
    before = ledger.bytes()
    for round in range(1, ROUNDS + 1):
        passes.reset()
        before = ledger.bytes()
        server.begin(round, [0])
        state = algorithm.round(server, state)
        server.overall = server.trained[0]
    sent = {way: total - before[way] for way, total in ledger.bytes().items()}
    inside = passes.per_batch()
    algorithm.finish(server, {"aca": algorithm.model(state), "oca": server.overall or {}})
    outside = passes.per_client(size)
    one_model = sum(t.nbytes for t in task.initial_weights.values())
    extra = [kind for kind in ledger.disclosed() if kind in (*LEAKAGE, "local_loss")]
    return {
        "name": algorithm.name,
        "fairness_aware": algorithm.fairness_aware,
        "needs_proxy_data": algorithm.needs_proxy_data,
        "discloses": ["weights", *extra],
        **{f"bytes_{way}": round_off(sent[way] / one_model) for way in ("down", "up")},
        "passes": {name: round_off(value) for name, value in inside.items()},
        "passes_outside": {name: round_off(value) for name, value in outside.items()},
    }


def round_off(value: float) -> float:
    return round(value, 2)


def tiny_config() -> Config:
    """LeNet-5 and the paper's generator on images of EMNIST's size."""
    from fedkf.runs.config import resolve

    settings = {
        "data.mean": [0.5],
        "data.std": [0.5],
        "federation.local_epochs": 1,
        "federation.steps": "own",
        "federation.batch_size": BATCH,
        "generator.preset": "paper",
        "generator.name": "released",
        "generator.noise": NOISE,
        "model.name": "lenet5",
    }
    return resolve({}, {"algorithm.name": "fedavg", **settings})


def tiny_data() -> FederatedData:
    """One client with two batches and nothing to test."""
    import numpy as np
    import torch

    from fedkf.data.federated import FederatedData

    images = torch.rand((2 * BATCH, *SHAPE), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(2 * BATCH) % 2
    ends, none = np.array([0, len(labels)]), np.array([0, 0])
    names = [str(k) for k in range(CLASSES)]
    return FederatedData(images, labels, ends, images[:0], labels[:0], none, ["client"], names)


def table(progress: Callable[[str], None] = lambda name: None) -> list[dict[str, Any]]:
    """A row for every algorithm, with the paper's own where it has one."""
    from fedkf.core.threads import threads

    printed = paper_rows()
    rows = []
    with threads(1):  # batches so small gain nothing from more
        for name in algorithms.names():
            progress(name)
            kind = algorithms.get(name)
            row = measure(kind.create({**kind.fidelity.get("released", {}), **kind.tiny}))
            rows.append({**row, "paper": printed.get(name), "differs": differences(row, printed)})
    return rows


def paper_rows() -> dict[str, dict[str, Any]]:
    """Table I and the table of operations as the paper prints them, by algorithm."""
    text = (resources.files("fedkf.paper") / "comparison.json").read_text("utf-8")
    rows: dict[str, dict[str, Any]] = json.loads(text)["rows"]
    for row in rows.values():
        if row["passes"] is not None:
            row["passes"] = dict(zip(PASSES, row["passes"], strict=True))
    return rows


def differences(row: Mapping[str, Any], printed: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The columns in which a measured row is not what the paper prints."""
    ours = {**row, "leaks": any(kind in LEAKAGE for kind in row["discloses"])}
    theirs = printed.get(row["name"], {})
    keys = ("fairness_aware", "needs_proxy_data", "leaks", "passes")
    return [key for key in keys if theirs.get(key) is not None and theirs[key] != ours[key]]
