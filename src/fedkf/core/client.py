"""Client: what an algorithm sees on the client's side, and the host that runs its steps."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from fedkf.core.batches import batch_indices, batches_of, joinable, normalises_batches
from fedkf.core.codec import Codec
from fedkf.core.determinism import exact
from fedkf.core.errors import FedkfError, UserError, disk_error
from fedkf.core.evaluation import count
from fedkf.core.optimizers import make_optimizer
from fedkf.core.payload import Payload, Weights
from fedkf.core.personal import EVALUATIONS, STEP
from fedkf.core.privacy import Privacy, Withheld, behind, tests_of
from fedkf.core.random import GlobalStream
from fedkf.core.samples import Samples, Sampling
from fedkf.core.signals import ENDINGS, watched_signals
from fedkf.core.tally import KIND
from fedkf.core.task import Task, copy_of
from fedkf.core.turn import Turn
from fedkf.core.uploads import ALWAYS_DISCLOSED

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.algorithm import Algorithm
    from fedkf.core.versions import Versions


@dataclass(frozen=True)
class ClientData:
    """A client's samples, normalised; the test part is empty for a client without any."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    units: Tensor | None = None
    """To whom each training sample belongs (`data.unit`), from 0."""


class Client:
    """One client during one step of an algorithm. Only what the step returns leaves it.

    `state` is the client's private memory: None at first, then whatever it was set to (a new
    Payload, not the old one changed) in the last round whose upload was accepted.
    """

    def __init__(
        self,
        id: int,
        round: int,
        data: ClientData,
        task: Task,
        state: Payload | None = None,
    ) -> None:
        self.id, self.round, self.data = id, round, data
        self.size = len(data.labels)
        privacy = task.parts_of(Privacy)
        self.task = task if privacy else task.of_client(data.labels)
        self.state = state
        self.steps = 0
        self.aside_stream = GlobalStream(task.streams.integer("aside", round, id), task.device)
        self.losses: dict[str, Tensor] = {}
        self.logged: Counter[str] = Counter()
        self.generators: list[torch.Generator] = []
        self.source: Samples | None = None
        self.turn: Turn | None = None
        """Where training is kept from epoch to epoch, if it is."""
        self.private = behind(privacy[0], self) if privacy else None
        """The samples, where they are reached through noisy gradients only."""

    def random(self, purpose: str) -> torch.Generator:
        """A random stream of this client, this round and this purpose."""
        stream = self.task.streams.torch_generator(purpose, self.round, self.id)
        if self.turn is not None:
            self.generators.append(stream)
        return stream

    # -- local training -------------------------------------------------------------------------

    def start(self, weights: Weights) -> nn.Module:
        """The local model, set to `weights`, in training mode, with a new optimizer."""
        self.model = self.task.load("student", weights).train()
        self.normalises_batches = normalises_batches(self.model)
        self.joins_batches = joinable(self.model)
        self.optimizer = make_optimizer(self.task.training, self.model, self.round)
        return self.model

    @property
    def planned(self) -> int:
        """How many batches this turn has, those included that a model with batch norm skips."""
        return batches_of(self.size, self.task.training)

    def batches(
        self, purpose: str = "batches", own: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of this round's local epochs, from a stream that restarts every round.

        Another purpose gives other batches, for algorithms that need several at a time. `own` are
        the client's own batches, whatever number of steps the run prescribes. Under privacy they
        are Poisson samples, sealed: only `loss` can open them.
        """
        if self.private is not None:
            yield from self.private.batches()
            return
        for index in self.indices(purpose, own):
            yield self.data.images[index], self.data.labels[index]

    def indices(self, purpose: str = "batches", own: bool = False) -> Iterator[Tensor]:
        """The same batches as the numbers of their samples, for what is known of each sample.

        Batch normalisation cannot train on a single sample: a model that has it passes over such a
        batch, and a client with nothing else repeats its sample.
        """
        if self.private is not None:
            raise Withheld
        training, turn = self.task.training, self.turn if purpose == "batches" else None
        if own:
            training = replace(training, steps_per_epoch=None)
        random = self.task.streams.torch_generator(purpose, self.round, self.id)
        epoch = training.steps_per_epoch or math.ceil(self.size / training.batch_size)
        done = turn.restore(self) if turn is not None else 0
        indices = batch_indices(self.size, training, random)
        for number, index in enumerate(itertools.islice(indices, done, None), done):
            if turn is not None and number > done and number % epoch == 0:
                turn.keep(self, number)
            if len(index) == 1 and self.normalises_batches:
                if self.size > 1:
                    continue
                index = index.repeat(2)
            yield index
        if turn is not None and done < training.local_epochs * epoch:
            turn.keep(self, training.local_epochs * epoch)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The task's loss of a batch; under privacy one of value 0 with a noisy gradient."""
        if self.private is not None:
            return self.private.loss(self.model, self.task.loss, x)
        return self.task.loss(self.model(x), y)

    def step(self, loss: Tensor) -> None:
        """One step of the local model down `loss`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.private is not None:
            self.private.restrain(self.model)
        if self.task.training.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.task.training.clip)
        self.optimizer.step()
        self.steps += 1
        if self.private is None:
            self.log(loss=loss)

    def log(self, **losses: Tensor) -> None:
        """Add to the sums whose means are reported; stays on the device, so nothing waits.

        A sum in half precision would soon grow no more.
        """
        for name, value in losses.items():
            value = value.detach()
            value = value.float() if value.dtype.itemsize < 4 else value
            self.losses[name] = self.losses[name] + value if name in self.losses else value
            self.logged[name] += 1

    def upload(self, **groups: dict[str, Any]) -> Payload:
        """The upload after training: the local model's weights, mean losses, and `groups`."""
        losses = {name: float(total) / self.logged[name] for name, total in self.losses.items()}
        upload = Payload().add("weights", copy_of(self.model), base="weights")
        for name, values in {"monitoring": losses, **groups}.items():
            upload.add(name, values)
        return upload

    # -- distillation ---------------------------------------------------------------------------

    def teacher(self, weights: Weights, role: str = "teacher") -> nn.Module:
        """A second model, set to `weights`, fixed: in evaluation mode and without gradients.

        Each role has a module of its own, for algorithms that need several.
        """
        return self.task.load(role, weights).eval().requires_grad_(False)

    def samples(self) -> Samples:
        """Where the inputs of distillation come from; continues from this client's state."""
        self.source = self.task.part(Sampling).source(self)
        return self.source

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Passes through the local model that leave no trace but their gradients.

        Running statistics stay as they are and dropout draws from a stream of its own, so that
        training on the client's own data does not depend on what is done here.
        """
        tracking: list[Any] = [
            m for m in self.model.modules() if getattr(m, "track_running_stats", False)
        ]
        # Instance norm moves its statistics whenever it has them.
        single = [
            m
            for m in tracking
            if isinstance(m, torch.nn.modules.instancenorm._InstanceNorm) and m.training
        ]
        kept = [(m, m.running_mean, m.running_var) for m in single]
        for module in tracking:
            module.track_running_stats = False
        for module in single:
            module.running_mean = module.running_var = None
        try:
            with self.aside_stream.active():
                yield
        finally:
            for module in tracking:
                module.track_running_stats = True
            for module, mean, variance in kept:
                module.running_mean, module.running_var = mean, variance


@dataclass(frozen=True)
class Call:
    """One step to run on one client: from which version of its state, and which one it writes."""

    step: str
    client: int
    round: int
    start: str | None
    version: str


@dataclass(frozen=True)
class Reply:
    """What came of a call: an upload, or the reason why there is none."""

    call: Call
    upload: Payload | None = None
    wrote_state: bool = False
    error: str = ""
    details: str = ""


class ClientHost:
    """Runs steps for any client whose data it holds. Every engine's client side is one of these.

    Where it `keeps_turns`, a call that is repeated after a crash goes on after its last epoch.
    """

    keeps_turns = False

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        states: Versions,
        data: Callable[[int], ClientData],
        codec: Codec | None = None,
    ) -> None:
        self.algorithm, self.task = algorithm, task
        self.states, self.data, self.codec = states, data, codec or Codec()

    def perform(self, call: Call, wire: Payload) -> Reply:
        """Run a step.

        What the step raises becomes a StepFailed; UserErrors and errors of our own disk stop the
        run.
        """
        if call.step not in (*self.algorithm.client_steps, STEP):
            raise UserError(
                f"{self.algorithm.name} has no step {call.step!r} for clients: its client_steps "
                f"are {', '.join(self.algorithm.client_steps)}"
            )
        state = None if call.start is None else self.states.load(call.client, call.start)
        client, upload = self._run(call, wire, state)
        wrote = client.state is not None and client.state is not state
        if wrote and client.state is not None:
            try:
                self.states.save(call.client, call.version, client.state)
            except OSError as error:
                raise disk_error(error, self.states.folder) or error from error
        return Reply(call, upload, wrote)

    def _run(self, call: Call, wire: Payload, state: Payload | None) -> tuple[Client, Payload]:
        with watched_signals() as signals:
            try:
                data = self.data(call.client)
                client = Client(call.client, call.round, data, self.task, state)
                if client.private is not None and call.step in EVALUATIONS:
                    client.data = tests_of(data)
                down = wire if call.step in EVALUATIONS else self.codec.decode_down(wire)
                if self.keeps_turns and call.step not in EVALUATIONS:
                    client.turn = Turn.of(self.states.folder, call, wire, self.algorithm)
                seed = self.task.streams.integer(f"global {call.step}", call.round, call.client)
                training = call.step not in EVALUATIONS
                with GlobalStream(seed, self.task.device).active(), self.task.precision(training):
                    upload: Payload = getattr(self.algorithm, call.step)(client, down)
                if not isinstance(upload, Payload):
                    kind = type(upload).__name__
                    raise TypeError(f"{call.step} returned {kind}, not a Payload")
                asked = (KIND,) if self.task.statistics and call.step in EVALUATIONS else ()
                refuse_undeclared(self.algorithm, upload, asked)
                return client, self.codec.encode_up(upload, down)
            except UserError:
                raise
            except (Exception, *ENDINGS) as error:
                if error in signals:
                    raise
                raise StepFailed(call, error) from error

    def count(self, clients: Sequence[int], readouts: Payload) -> Payload:
        """How many test samples of each client each readout classifies correctly, and what else
        is asked of them."""
        with watched_signals() as signals:
            try:
                with exact(self.task.device):
                    return count(self.task, [self.data(k) for k in clients], readouts)
            except ENDINGS as error:
                if error in signals:
                    raise
                raise FedkfError(f"evaluation failed: {in_a_line(error)}") from error


class StepFailed(Exception):
    """A client's step raised something."""

    def __init__(self, call: Call, cause: BaseException) -> None:
        self.reason = in_a_line(cause)
        super().__init__(f"client {call.client}, {call.step} in round {call.round}: {self.reason}")


def in_a_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class Undeclared(Exception):
    """An upload that would disclose more than its algorithm says."""


def refuse_undeclared(algorithm: Algorithm, upload: Payload, asked: Sequence[str] = ()) -> None:
    """What an algorithm discloses is declared by it; anything else stops here, on the client.

    `asked` is what the task asks for in this step.
    """
    allowed = {*ALWAYS_DISCLOSED, *algorithm.discloses, *asked}
    for group, kind in upload.kinds.items():
        if kind not in allowed:
            raise Undeclared(
                f"{algorithm.name} would send {group!r} of kind {kind!r}, which it does not declare"
            )
