"""Server: what an algorithm sees on the server's side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fedkf.core.client import Call, Reply
from fedkf.core.codec import Codec
from fedkf.core.defence import Defence, relative_work
from fedkf.core.details import tell
from fedkf.core.errors import FedkfError, UserError, printable
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory
from fedkf.core.moves import measure
from fedkf.core.payload import Payload, Weights
from fedkf.core.personal import EVALUATIONS
from fedkf.core.random import GlobalStream
from fedkf.core.records import Moves, Refused
from fedkf.core.tally import Tally
from fedkf.core.task import Task
from fedkf.core.threads import threads
from fedkf.core.uploads import Announced, counts_steps, fault, misjudged, missing, outlying, trains

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from fedkf.core.algorithm import Algorithm
    from fedkf.core.versions import Versions


@dataclass(frozen=True)
class Counts:
    """Test samples per client, and the correct ones per readout and client."""

    clients: list[int]
    tested: list[int]
    correct: dict[str, list[int]]
    statistics: dict[str, list[Tally]] = field(default_factory=dict)
    """Each client's other counts and sums by readout, where the task asks for any."""


Accept = Callable[[Reply], bool]
"""Takes a reply and says whether its upload can be used."""


class Enough(Exception):
    """As many uploads as were wanted are there."""


class Engine(Protocol):
    """Carries payloads to clients and back. It knows nothing of algorithms."""

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        """Send `down`, run each call on its client, and give `accept` each reply as it comes.

        Every call has a reply in the end, if only one that says why there is no upload; but where
        `accept` raises Enough, the exchange is over, and what is still under way may be ended.
        """
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


@dataclass
class Answers:
    """What clients have answered so far in one exchange."""

    sent: Payload
    """What they were sent, as they see it."""
    training: bool
    wanted: int | None
    """How many uploads are waited for; None: all."""
    uploads: dict[int, Payload] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    """Why a client's upload cannot be used."""
    wrote: set[int] = field(default_factory=set)
    """Who wrote a new private state."""


class Diverged(FedkfError):
    """A round came to nothing that training could go on from."""


class TooFewUploads(Diverged):
    """Too few clients returned something usable."""


def named(reasons: Mapping[int, str]) -> list[Refused]:
    """What a record says of whom a reason is known, by client id."""
    return [Refused(client, printable(reasons[client])) for client in sorted(reasons)]


@dataclass(frozen=True)
class Channel:
    """The way to the clients: what carries payloads, how they are encoded, where they count."""

    engine: Engine
    algorithm: Algorithm | None = None
    """Says what each step's upload must hold."""
    codec: Codec = field(default_factory=Codec)
    ledger: Ledger = field(default_factory=Ledger)


class Storage:
    """What the server keeps of each client. This one lives in memory; a run's is on its disk."""

    def __init__(self, states: Versions) -> None:
        self.states = states
        """Which version of its private state each client is to start from."""

    def memory(self, name: str, sizes: Mapping[int, int], now: Callable[[], int]) -> Memory:
        """A new per-client store, whose means weigh clients by `sizes`; `now` is the round."""
        return Memory({}, sizes)


class Server:
    """The server during a run: `round`, `active`, `sizes`, `task`, `overall` and `exchange`."""

    def __init__(
        self,
        task: Task,
        sizes: Mapping[int, int],
        channel: Channel,
        storage: Storage,
        defence: Defence | None = None,
        proxy: Tensor | None = None,
    ) -> None:
        self.task, self.sizes, self.streams = task, sizes, task.streams
        self.tests: Mapping[int, int] = {}
        """How many test samples each client said it has, where that is known."""
        self.channel, self.storage = channel, storage
        self.round = 0
        self.active: list[int] = []
        self.late: list[int] = []
        """Who was asked too, and not waited for."""
        self.uncounted: list[int] = []
        """Whose upload of this round T1 left out."""
        self.paid: set[int] | None = None
        """Under privacy, who may still take a turn in this round: each may take one."""
        self._wanted: int | None = None
        self.overall: Weights | None = None
        """T1's mean of every client's latest weights; None before any client was seen."""
        self.proxy = proxy
        """Unlabelled inputs that belong to no client (`data.proxy`), normalised as the data is."""
        self.defence = defence or Defence()
        self.refused: list[Refused] = []
        self.unjudged: list[Refused] = []
        """Whose answer to the evaluation does not count, and why."""
        self.moves = Moves()
        self.suspects: set[int] = set()
        """Clients whose upload of this round the defence refused."""
        self.trained: dict[int, Weights] = {}
        self.monitoring: dict[int, dict[str, int | float]] = {}
        self.on_reply: Callable[[Reply], None] = lambda reply: None
        own_batches = task.training.steps_per_epoch is None
        self._work = relative_work(sizes, task.training.batch_size if own_batches else None)
        self._memories: dict[str, Memory] = {}
        self._saved_memories: dict[str, Payload] = {}
        self._exchanges = 0
        self.seconds_training = 0.0

    def begin(self, round: int, active: Sequence[int], wanted: int | None = None) -> None:
        """A new round. Where more clients are active than `wanted`, the first so many count."""
        self.round, self.active = round, sorted(active)
        self.uncounted = []
        self.paid = None if self.paid is None else set(active)
        self.late, self._wanted = [], wanted if wanted and wanted < len(active) else None
        self.refused, self.trained, self.monitoring, self.unjudged = [], {}, {}, []
        self.moves, self.suspects = Moves(), set()
        self._exchanges = self._last_exchange(round)
        self.seconds_training = 0.0

    def _last_exchange(self, round: int) -> int:
        """The number of the last exchange that a private state was accepted in, or 0.

        A resumed run that only concludes takes up a round again, whose versions must stay as they
        are.
        """
        versions = (version.split(".") for version in self.storage.states.latest.values())
        return max((int(number) for of, number in versions if int(of) == round), default=0)

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
        with threads(1), GlobalStream(seed, self.task.device).active():
            yield self.streams.torch_generator(purpose, self.round)

    def mean(self, items: Iterable[tuple[float, Weights]]) -> Weights:
        """The mean of models, each with its weight, or the robust one of `federation.defence`."""
        return self.defence.mean(items)

    def memory(self, name: str, weighted: bool = True) -> Memory:
        """A per-client store with an exact running mean, by size or not, for all rounds.

        What it holds of a client whose upload the defence refused in this round is left out of
        the mean until the client's slot is filled anew.
        """
        if name not in self._memories:
            sizes = self.sizes if weighted else dict.fromkeys(self.sizes, 1)
            made = self._memories[name] = self.storage.memory(name, sizes, lambda: self.round)
            if name in self._saved_memories:
                made.restore(self._saved_memories[name])
        self._memories[name].quarantine(self.suspects)
        return self._memories[name]

    def memories(self) -> dict[str, Payload]:
        """What a checkpoint keeps of the memories, also of those not asked for since a resume."""
        return {**self._saved_memories, **{k: m.state() for k, m in self._memories.items()}}

    def restore_memories(self, saved: Mapping[str, Payload]) -> None:
        """Memories that are asked for from now on begin with what a checkpoint kept of them."""
        self._saved_memories = dict(saved)

    def exchange(self, step: str, clients: Sequence[int], down: Payload) -> list[Upload]:
        """Run the algorithm's method `step` on each client; the accepted uploads, by client id.

        What a client wrote to its private state counts only if its upload is accepted.
        """
        self._exchanges += 1
        self._pay(step, clients)
        training = step not in EVALUATIONS
        calls, wanted = self._calls(step, clients, training)
        wire, sent = self._send(down, len(calls), training)
        answers = Answers(sent, training, wanted)
        began = time.perf_counter()
        with contextlib.suppress(Enough):
            self.channel.engine.exchange(calls, wire, partial(self._accept, answers))
        seconds = time.perf_counter() - began
        accepted = self._settle(answers)
        if training:
            self.seconds_training += seconds
            self._note(step, calls, answers, accepted)
        else:
            self.unjudged += named(answers.reasons)
        return accepted

    def _calls(
        self, step: str, clients: Sequence[int], training: bool
    ) -> tuple[list[Call], int | None]:
        """Who is asked, in which order, and how many of them are waited for where not all are."""
        wanted = self._wanted if training and sorted(clients) == self.active else None
        # The first are to be the fastest, not those with the lowest numbers.
        order = sorted(clients)
        if wanted is not None:
            order = self.random("order").permutation(order).tolist()
        latest, version = self.storage.states.latest, self._version
        return [Call(step, k, self.round, latest.get(k), version) for k in order], wanted

    @property
    def _version(self) -> str:
        """The version of private states that clients write in this exchange."""
        return f"{self.round}.{self._exchanges}"

    def _send(self, down: Payload, count: int, training: bool) -> tuple[Payload, Payload]:
        """What goes to so many clients over the wire, and what they make of it."""
        codec = self.channel.codec
        wire = codec.encode_down(down) if training else down
        self.channel.ledger.down(wire, count, training)
        return wire, codec.decode_down(wire) if training else down

    def _accept(self, answers: Answers, reply: Reply) -> bool:
        """Put a reply to the others; whether its upload can be used."""
        client = reply.call.client
        upload, reason = self._judged(reply, answers.sent, answers.training)
        if reason or upload is None:
            answers.reasons[client] = reason
        else:
            answers.uploads[client] = upload
            answers.wrote.update({client} if reply.wrote_state else ())
        self.on_reply(reply)
        if len(answers.uploads) == answers.wanted:
            raise Enough
        return client in answers.uploads

    def _settle(self, answers: Answers) -> list[Upload]:
        """The uploads that are used after all; only their clients' new private states count."""
        if answers.training:
            answers.reasons |= self._compared(answers.sent, answers.uploads)
        refused, states = answers.reasons.keys(), self.storage.states
        for client in sorted(refused):
            states.discard(client, self._version)
        for client in sorted(answers.wrote - refused):
            states.accept(client, self._version)
        usable = sorted(answers.uploads.keys() - refused)
        return [Upload(k, self.sizes[k], answers.uploads[k]) for k in usable]

    def _note(
        self, step: str, calls: Sequence[Call], answers: Answers, accepted: Sequence[Upload]
    ) -> None:
        """What the round keeps of an exchange of training; too few uploads end it."""
        algorithm = self.channel.algorithm
        reasons = answers.reasons
        self.refused += named(reasons)
        self._require(len(accepted), len(calls))
        heard = {*answers.uploads, *reasons}
        self._leave_behind([c for c in calls if c.client not in heard])
        for item in accepted if algorithm is None or trains(algorithm, step) else ():
            if "weights" in item.payload:
                self.trained[item.client] = item["weights"]
            if "monitoring" in item.payload:
                self.monitoring[item.client] = item.payload.numbers["monitoring"]

    def _pay(self, step: str, clients: Sequence[int]) -> None:
        """Under privacy, refuse a turn that was not paid for when the round began."""
        algorithm = self.channel.algorithm
        free = () if algorithm is None else algorithm.without_samples
        if self.paid is None or step in (*EVALUATIONS, *free):
            return
        if more := sorted(set(clients) - self.paid):
            raise UserError(
                f"under privacy a client takes one turn in a round that it is asked in, and "
                f"{step} was to be another for client {more[0]}"
            )
        self.paid -= set(clients)

    def _compared(self, sent: Payload, uploads: Mapping[int, Payload]) -> dict[int, str]:
        """Why the defence refuses uploads, next to each other; how unusual they are is noted."""
        absurd = outlying(uploads)
        fine = {k: upload for k, upload in uploads.items() if k not in absurd}
        refused = self.defence.judge(self.round, sent, fine, self._work)
        self.suspects |= refused.keys()
        fit = {k: u["weights"] for k, u in uploads.items() if u.kinds.get("weights") == "weights"}
        if sent.kinds.get("weights") == "weights":
            self.moves += measure(sent["weights"], fit)
        return {**absurd, **refused}

    def _leave_behind(self, late: Sequence[Call]) -> None:
        """These were not waited for: whatever they did in this round never was."""
        for call in late:
            self.storage.states.discard(call.client, call.version)
            self.active.remove(call.client)
        self.late = sorted([*self.late, *(call.client for call in late)])

    def _judged(self, reply: Reply, sent: Payload, training: bool) -> tuple[Payload | None, str]:
        """The upload of a reply, decoded, and why it cannot be used, or nothing."""
        upload = reply.upload
        if upload is None:
            call = reply.call
            tell(f"client {call.client}, {call.step} in round {call.round},", reply.details)
            return None, reply.error
        self.channel.ledger.up(upload, training)
        try:
            upload = self.channel.codec.decode_up(upload, sent)
            reason = self._faults(upload, sent, reply.call)
        except Exception as error:  # it may hold anything
            reason = f"it cannot be decoded ({type(error).__name__}: {error})"
        return upload, reason

    def _faults(self, upload: Payload, sent: Payload, call: Call) -> str:
        algorithm, step, task = self.channel.algorithm, call.step, self.task
        size, tested = self.sizes[call.client], self.tests.get(call.client)
        client = Announced.of(size, task.training, tested)
        if algorithm is not None and not counts_steps(algorithm, step):
            client = replace(client, steps=None)
        reason = fault(upload, sent, task.classes, client)
        if step in EVALUATIONS:
            return reason or misjudged(upload, sent, client, task, algorithm, step)
        if algorithm is not None:
            reason = missing(upload, algorithm, step) or reason
            reason = reason or algorithm.fault(self, step, upload)
        return reason

    def _require(self, usable: int, asked: int) -> None:
        needed = self.defence.min_clients
        if usable < min(needed, asked):
            reasons = "; ".join(f"client {r.client}: {r.reason}" for r in self.refused[:3])
            if "NaN" in reasons:
                reasons += "; a lower federation.lr or federation.clip may keep models finite"
            raise TooFewUploads(
                f"round {self.round} has {usable} usable uploads of {asked}, "
                f"and {needed} are needed ({reasons})"
            )
