"""Server: what an algorithm sees on the server's side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from fedkf.core.client import Call, Reply
from fedkf.core.codec import Codec
from fedkf.core.errors import FedkfError, printable
from fedkf.core.memory import Memory
from fedkf.core.payload import Payload, Weights
from fedkf.core.random import GlobalStream, Streams
from fedkf.core.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.ledger import Ledger
    from fedkf.core.versions import Versions


MOST_SAMPLES = 2**40
"""More than any client has."""


@dataclass(frozen=True)
class Counts:
    """Test samples per client, and the correct ones per readout and client."""

    clients: list[int]
    tested: list[int]
    correct: dict[str, list[int]]


class Engine(Protocol):
    """Carries payloads to clients and back. It knows nothing of algorithms."""

    def exchange(self, calls: Sequence[Call], down: Payload) -> Iterator[Reply]:
        """Send `down`, run each call on its client; replies come as they finish."""
        ...

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> Counts | None:
        """Count all clients' correct test samples in one go, or None if only clients can."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Upload:
    """An accepted upload."""

    client: int
    size: int
    payload: Payload

    def __getitem__(self, group: str) -> Weights:
        return self.payload[group]

    def number(self, group: str, name: str) -> int | float:
        return self.payload.number(group, name)


@dataclass(frozen=True)
class Refusal:
    """An upload that was left out of its round, and why."""

    client: int
    reason: str
    details: str = ""


class TooFewUploads(FedkfError):
    """Too few clients returned something usable."""


class Server:
    """The server during a run: `round`, `active`, `sizes`, `task`, `overall` and `exchange`."""

    def __init__(
        self,
        task: Task,
        sizes: Mapping[int, int],
        streams: Streams,
        engine: Engine,
        states: Versions,
        ledger: Ledger,
        make_memory: Callable[[str, Mapping[int, int]], Memory],
        min_clients: int = 1,
        codec: Codec | None = None,
    ) -> None:
        self.task, self.sizes, self.streams = task, sizes, streams
        self.round = 0
        self.active: list[int] = []
        self.overall: Weights | None = None
        """T1's mean of every client's latest weights; None before any client was seen."""
        self.proxy: Tensor | None = None
        """Unlabelled inputs that belong to no client (`data.proxy`), normalised as the data is."""
        self.refused: list[Refusal] = []
        self.trained: dict[int, Weights] = {}
        self.monitoring: dict[int, dict[str, int | float]] = {}
        self.on_reply: Callable[[Reply], None] = lambda reply: None
        self.memories: dict[str, Memory] = {}
        self._engine, self._states, self._ledger = engine, states, ledger
        self._make_memory, self._min_clients = make_memory, min_clients
        self._codec = codec or Codec()
        self._exchanges = 0
        self.seconds_training = 0.0

    def begin(self, round: int, active: Sequence[int]) -> None:
        self.round, self.active = round, sorted(active)
        self.refused, self.trained, self.monitoring = [], {}, {}
        self._exchanges = 0
        self.seconds_training = 0.0

    def random(self, purpose: str) -> np.random.Generator:
        """A random stream of the server for this round and purpose."""
        return self.streams.numpy_generator(purpose, self.round)

    @contextmanager
    def own_work(self, purpose: str) -> Iterator[torch.Generator]:
        """Training on the server: a random stream for it, and one thread.

        Layers that draw (dropout) draw from the same purpose. Workers or not, and however many
        threads the clients have, the results are the same.
        """
        seed = self.streams.integer(f"global {purpose}", self.round)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with GlobalStream(seed, self.task.device).active():
                yield self.streams.torch_generator(purpose, self.round)
        finally:
            torch.set_num_threads(threads)

    def memory(self, name: str, weighted: bool = True) -> Memory:
        """A per-client store with an exact running mean, by size or not, for all rounds."""
        if name not in self.memories:
            sizes = self.sizes if weighted else dict.fromkeys(self.sizes, 1)
            self.memories[name] = self._make_memory(name, sizes)
        return self.memories[name]

    def exchange(self, step: str, clients: Sequence[int], down: Payload) -> list[Upload]:
        """Run the algorithm's method `step` on each client; the accepted uploads, by client id.

        What a client wrote to its private state counts only if its upload is accepted.
        """
        self._exchanges += 1
        version = f"{self.round}.{self._exchanges}"
        start = self._states.latest
        calls = [Call(step, k, self.round, start.get(k), version) for k in sorted(clients)]
        training = step != "evaluate"
        wire = self._codec.encode_down(down) if training else down
        self._ledger.down(wire, len(calls), training)
        down = self._codec.decode_down(wire) if training else down  # as the clients see it
        began = time.perf_counter()
        uploads: dict[int, Upload] = {}
        refused: dict[int, Refusal] = {}
        for reply in self._engine.exchange(calls, wire):
            client, upload, reason = reply.call.client, reply.upload, reply.error
            if upload is not None:
                self._ledger.up(upload, training)
                try:
                    upload = self._codec.decode_up(upload, down)
                    reason = fault(upload, down)
                    if not training:
                        reason = reason or miscounted(upload, down)
                except Exception as error:  # it may hold anything
                    reason = f"it cannot be decoded ({type(error).__name__}: {error})"
            if reason or upload is None:
                reply.usable = False
                self._states.discard(client, version)
                refused[client] = Refusal(client, printable(reason), reply.details)
            else:
                if reply.wrote_state:
                    self._states.accept(client, version)
                uploads[client] = Upload(client, self.sizes[client], upload)
            self.on_reply(reply)
        if training:
            self.seconds_training += time.perf_counter() - began
        accepted = [uploads[k] for k in sorted(uploads)]
        if not training:
            return accepted  # whoever does not answer is missing from the metrics
        self.refused += [refused[k] for k in sorted(refused)]
        if len(uploads) < min(self._min_clients, len(calls)):
            reasons = "; ".join(f"client {r.client}: {r.reason}" for r in self.refused[:3])
            raise TooFewUploads(
                f"round {self.round} has {len(uploads)} usable uploads of {len(calls)}, "
                f"and {self._min_clients} are needed ({reasons})"
            )
        for item in accepted:
            if "weights" in item.payload:
                self.trained[item.client] = item["weights"]
            if "monitoring" in item.payload:
                self.monitoring[item.client] = item.payload.numbers["monitoring"]
        return accepted


def fault(upload: Payload, down: Payload) -> str:
    """Why an upload cannot be used, or nothing. Weights must match those sent by the same name."""
    for group, kind in upload.kinds.items():
        if group not in down or not kind == down.kinds[group] == "weights":
            continue
        sent, got = down[group], upload[group]
        if missing := sorted(sent.keys() - got.keys()):
            return f"{group} lack {missing[0]!r}"
        if extra := sorted(got.keys() - sent.keys()):
            return f"{group} have {extra[0]!r}, which the model does not"
        for name, tensor in sent.items():
            if got[name].shape != tensor.shape:
                return f"{name!r} has shape {list(got[name].shape)}, not {list(tensor.shape)}"
            if got[name].dtype != tensor.dtype:
                return f"{name!r} is {got[name].dtype}, not {tensor.dtype}"
    for group in upload:
        if group != "monitoring" and not all(map(math.isfinite, upload.numbers[group].values())):
            return f"{group} holds NaN or infinite numbers"
        for name, tensor in upload[group].items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                return f"{group} {name!r} holds NaN or infinite values"
    return ""


def miscounted(upload: Payload, down: Payload) -> str:
    """Why an evaluation's counts cannot be used, or nothing."""
    counts = upload.numbers.get("monitoring", {})
    if missing := sorted({"tested", *down} - counts.keys()):
        return f"it does not count {missing[0]!r}"
    for name, count in counts.items():
        if type(count) is not int or not 0 <= count <= counts["tested"] <= MOST_SAMPLES:
            return f"{name!r} is {count!r}, which is no count of its test samples"
    return ""
