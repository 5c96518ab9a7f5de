"""Federation: the round loop, once, for every algorithm and every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from fedkf.core.algorithm import Algorithm
from fedkf.core.client import Reply
from fedkf.core.clock import Clock
from fedkf.core.details import warn
from fedkf.core.judging import scores as judged_scores
from fedkf.core.ledger import Ledger
from fedkf.core.moves import drift, mean_losses
from fedkf.core.outcome import finite, fitting, next_state, not_finite
from fedkf.core.outsiders import Outsiders
from fedkf.core.overall import with_global
from fedkf.core.payload import Payload, Weights
from fedkf.core.personal import STEP
from fedkf.core.privacy import Budget
from fedkf.core.records import Holdout, Round
from fedkf.core.schedule import Schedule, active_clients, asked_clients
from fedkf.core.scores import Score
from fedkf.core.server import Counts, Server
from fedkf.core.tally import KIND, blank, of_readout

OVERALL, DEFENCE, PRIVACY = "overall", "defence", "privacy"
"""The names of T1's memory, of what the defence remembers and of what clients have spent."""
FINAL, MEMORY = "final-", "memory-"
"""What the names of a checkpoint's payloads begin with: readouts after the last round, memories."""
Told = TypeVar("Told")


class Stop(Exception):
    """Raised by an observer: the run ends after this round, finished, with its models.

    >>> import fedkf
    >>> class Once(fedkf.Observer):
    ...     def round_finished(self, record):
    ...         raise fedkf.Stop
    >>> fedkf.run("digits", algorithm="fedavg", workers=0, observers=[Once()]).summary["rounds"]
    1
    """


class Observer:
    """Something that watches a run. Override what is of interest; raise Stop to end the run.

    `reply.call.client` is who answered, `reply.upload.numbers["monitoring"]` its training losses;
    a round's record has every client's accuracy.

    >>> import fedkf
    >>> class Names(fedkf.Observer):
    ...     def round_finished(self, record):
    ...         print(record.round, len(record.readouts["oca"].accuracy))
    >>> result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0, observers=[Names()])
    1 10
    """

    def round_started(self, round: int, active: Sequence[int]) -> None: ...
    def client_finished(self, reply: Reply) -> None: ...
    def round_finished(self, record: Round) -> None: ...
    def run_ended(self) -> None: ...
    def run_finished(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    round: int
    payloads: Mapping[str, Payload]
    ledger: dict[str, dict[str, dict[str, int]]]
    record: Round


class Checkpoint(Protocol):
    """Makes a finished round permanent, all of it or nothing."""

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Round]
    ) -> Round:
        """Write everything that changed, then the record, which `sign` completes at that moment."""
        ...


class Federation:
    """select → round → check uploads → T1 → evaluate → checkpoint → tell the observers."""

    def __init__(
        self,
        algorithm: Algorithm,
        server: Server,
        schedule: Schedule,
        checkpoint: Checkpoint,
        observers: Sequence[Observer] = (),
        budget: Budget | None = None,
    ) -> None:
        self.algorithm, self.server, self.budget = algorithm, server, budget
        self.schedule, self.checkpoint, self.observers = schedule, checkpoint, observers
        self.ledger = server.channel.ledger
        server.paid = None if budget is None else set()
        self.done = 0
        self.state: Payload | None = None
        self.final: dict[str, Weights] | None = None
        self.record: Round | None = None
        """The last round that was finished."""
        self.keep: Callable[[Round, Mapping[str, Weights]], None] | None = None
        """Is shown every round's readouts before the round is committed."""
        self.stopping = False
        """Whether the run ends after the last round that was done, however many were planned."""
        self.outsiders: Outsiders | None = None
        """Sites that take no part; the readouts are judged there, too."""
        server.on_reply = self._client_finished

    def restore(self, saved: Saved) -> None:
        """Continue after the round that `saved` holds."""
        self.done, self.state, self.record = saved.round, saved.payloads["state"], saved.record
        self.ledger.counts = saved.ledger
        memories = {k: p for k, p in saved.payloads.items() if k.startswith(MEMORY)}
        self.server.restore_memories({k.removeprefix(MEMORY): p for k, p in memories.items()})
        if OVERALL in saved.payloads:
            self.server.overall = saved.payloads[OVERALL]["weights"]
        else:
            self._remember_overall()
        if DEFENCE in saved.payloads:
            self.server.defence.restore(saved.payloads[DEFENCE])
        if self.budget is not None:
            self.budget.restore(saved.payloads.get(PRIVACY))
        finals = {n: p["weights"] for n, p in saved.payloads.items() if n.startswith(FINAL)}
        if finals and (self.stopping or self._last(saved.round)):
            self.final = {name.removeprefix(FINAL): weights for name, weights in finals.items()}

    def run(self) -> dict[str, Weights]:
        """Train to the last round; the readouts "aca" and "oca"."""
        if self.state is None:
            self.state = self.algorithm.start(self.server)
        while self.done == 0 or not (self.stopping or self._last(self.done)):
            self.state = self._round(self.done + 1, self.state)
        return self.final if self.final is not None else self._conclude(self.state)

    def _last(self, round: int) -> bool:
        """Whether no round follows: all are done, or no client has anything left to spend."""
        if round == self.schedule.rounds or self.budget is None:
            return round == self.schedule.rounds
        return not any(map(self.budget.allows, self.server.sizes))

    def readouts(self, state: Payload) -> dict[str, Weights]:
        """The algorithm's own global model and, once a client was seen, T1's."""
        own = self.algorithm.model(state)
        models = {"aca": fitting(self.algorithm, own, self.server.task.initial_weights)}
        return models if self.server.overall is None else {**models, "oca": self.server.overall}

    def select(self, round: int) -> list[int]:
        """The clients to ask in a round, uniformly of those available, without replacement."""
        clients, schedule = len(self.server.sizes), self.schedule
        wanted = active_clients(schedule.fraction, clients)
        count = asked_clients(wanted, schedule.oversample, clients)
        random = self.server.streams.numpy_generator("selection", round)
        if schedule.availability is None and self.budget is None:
            return sorted(random.choice(clients, count, replace=False).tolist())
        there: Sequence[int] = range(clients)
        if schedule.availability is not None:
            there = schedule.availability.clients(round, clients, self.server.streams)
        if self.budget is not None:
            there = [k for k in there if self.budget.allows(k)]
        if not there:
            return []
        return sorted(random.choice(there, min(count, len(there)), replace=False).tolist())

    def _round(self, round: int, state: Payload) -> Payload:
        server, clock = self.server, Clock()
        asked, before = self._begin(round), self.ledger.bytes()
        sent = state["weights"] if "weights" in state else self.algorithm.model(state)
        if server.active:
            state = next_state(self.algorithm, round, lambda: self.algorithm.round(server, state))
        self._update_overall(sent)
        last = self._last(round)
        readouts = self.readouts(state)
        finite(round, {**readouts, "next": state.tensors.get("weights", {})})
        if last:
            readouts = self.final = self._finished(readouts)
        clock.lap("aggregate")
        due = last or round % self.schedule.evaluate_every == 0
        scores, holdout = self._judged(readouts, last) if due else (None, None)
        clock.lap("evaluate")
        after = self.ledger.bytes()
        record = Round(
            round,
            server.active,
            server.refused,
            scores,
            {**self._losses(), **drift(sent, server.trained)},
            {way: after[way] - before[way] for way in after},
            moves=server.moves,
            late=server.late,
            privacy=None if self.budget is None else self.budget.spent(asked),
            holdout=holdout,
            uncounted=server.uncounted,
            unjudged=server.unjudged,
        )
        self.done = round
        clock.laps["train"] = server.seconds_training
        clock.laps["aggregate"] -= server.seconds_training

        def sign() -> Round:
            return replace(record, seconds=clock.seconds())

        if self.keep is not None:
            self.keep(record, readouts)
        if last or round % self.schedule.checkpoint_every == 0:
            record = self.checkpoint.commit(self.payloads(state), self.ledger, sign)
        else:
            record = sign()
        self.record = record
        for observer in self.observers:
            self._tell(observer.round_finished, record)
        return state

    def _begin(self, round: int) -> list[int]:
        """The clients to ask in a new round; each is charged, whatever comes of its turn."""
        asked = self.select(round)
        wanted = active_clients(self.schedule.fraction, len(self.server.sizes))
        self.server.begin(round, asked, wanted)
        if self.budget is not None:
            self.budget.charge(asked)
        for observer in self.observers:
            self._tell(partial(observer.round_started, round), self.server.active)
        return asked

    def _conclude(self, state: Payload) -> dict[str, Weights]:
        """End after the last round that was done, as if it had been planned as the last one."""
        assert self.record is not None
        server, record, before = self.server, self.record, self.ledger.bytes()
        if server.round != self.done:  # nothing was done since the run was resumed
            server.begin(self.done, ())
        readouts = self.final = self._finished(self.readouts(state))
        if self._tells_more(record):
            scores, holdout = self._judged(readouts, last=True)
            record = replace(record, readouts=scores, holdout=holdout, unjudged=server.unjudged)
        more = {way: count - before[way] for way, count in self.ledger.bytes().items()}
        total = {way: record.bytes.get(way, 0) + count for way, count in more.items()}
        record = replace(record, bytes=total)
        if self.keep is not None:
            self.keep(record, readouts)
        self.record = self.checkpoint.commit(self.payloads(state), self.ledger, lambda: record)
        return readouts

    def _finished(self, trained: dict[str, Weights]) -> dict[str, Weights]:
        """What the algorithm makes of the models in the end; one that it spoils stays as it was."""
        made = self.algorithm.finish(self.server, trained)
        for name, weights in made.items():
            if name in trained and (spoilt := not_finite(weights)):
                made = {**made, name: trained[name]}
                warn(
                    f"what {self.algorithm.name} does after the last round came to a model "
                    f"{name!r} whose {spoilt!r} holds NaN or infinite values; it is kept as trained"
                )
        return made

    def _tells_more(self, record: Round) -> bool:
        """Whether a round's record lacks what it would have, had it been planned as the last."""
        changed = type(self.algorithm).finish is not Algorithm.finish
        details = self.schedule.personal or bool(self.schedule.judgement.metrics)
        return changed or details or record.readouts is None

    def payloads(self, state: Payload) -> dict[str, Payload]:
        """What a checkpoint must hold beside slots and private states."""
        memories = {MEMORY + name: kept for name, kept in self.server.memories().items()}
        finals = {FINAL + name: Payload(weights=w) for name, w in (self.final or {}).items()}
        start = Payload(weights=self.server.task.initial_weights)
        kept = {"start": start, "state": state, **memories, **finals}
        if self.schedule.inactive == "global" and self.server.overall is not None:
            kept[OVERALL] = Payload(weights=self.server.overall)
        if self.budget is not None:
            kept[PRIVACY] = self.budget.state()
        remembered = self.server.defence.state()
        return {**kept, DEFENCE: remembered} if list(remembered) else kept

    def _update_overall(self, sent: Weights) -> None:
        """T1: the round's uploads replace their clients' slots, and the mean is taken anew."""
        server = self.server
        if self.schedule.inactive == "global":
            server.overall = with_global(server.trained, server.sizes, sent, server.defence.centre)
            return
        for client in sorted(server.trained):
            server.memory(OVERALL).put(client, server.trained[client])
        self._remember_overall()

    def _remember_overall(self) -> None:
        mean = self.server.memory(OVERALL).mean(
            self.schedule.scope, self.server.task.initial_weights, self.server.defence.centre
        )
        self.server.overall = mean

    def _client_finished(self, reply: Reply) -> None:
        for observer in self.observers:
            self._tell(observer.client_finished, reply)

    def _tell(self, hears: Callable[[Told], None], what: Told) -> None:
        """Tell an observer, who may ask for the end of the run."""
        try:
            hears(what)
        except Stop:
            self.stopping = True

    def _losses(self) -> dict[str, float]:
        """Mean training losses over the clients that reported them, weighted by size."""
        return mean_losses(self.server.monitoring, self.server.sizes)

    def _judged(
        self, readouts: Mapping[str, Weights], last: bool
    ) -> tuple[dict[str, Score] | None, Holdout | None]:
        """What the models do for the clients, and where they were not trained."""
        self.server.unjudged = []
        if not self.schedule.judged:
            return None, None
        return self._evaluate(readouts, last), self._judged_outside(readouts, last)

    def _evaluate(self, readouts: Mapping[str, Weights], last: bool) -> dict[str, Score]:
        counts = self._count(readouts, last and self.schedule.personal)
        total = len(self.server.sizes)
        of = None if len(counts.clients) == total else total  # only a sample, or who answered
        return self._scores(counts, of, last)

    def _judged_outside(self, readouts: Mapping[str, Weights], last: bool) -> Holdout | None:
        """What the models do where they were not trained."""
        if self.outsiders is None:
            return None
        with self.server.own_work("holdout"):
            counts = self.outsiders.count(readouts)
        return Holdout(self.outsiders.names, counts.tested, self._scores(counts, None, last))

    def _scores(self, counts: Counts, of: int | None, last: bool) -> dict[str, Score]:
        labelled = self.server.task.objective.labelled()
        streams = self.server.streams if last else None
        return judged_scores(counts, self.schedule.judgement, of, labelled, streams)

    def judges(self) -> Sequence[int]:
        """The clients whose test data count: all, or a sample that stays the same for the run."""
        total, wanted = len(self.server.sizes), self.schedule.evaluate_clients
        if wanted is None or wanted >= total:
            return range(total)
        random = self.server.streams.numpy_generator("evaluation")
        return sorted(random.choice(total, wanted, replace=False).tolist())

    def _count(self, readouts: Mapping[str, Weights], personal: bool = False) -> Counts:
        clients = self.judges()
        down = Payload()
        for name, weights in readouts.items():
            down.add(name, weights, "weights")
        if type(self.algorithm).evaluate is Algorithm.evaluate and not personal:
            counts = self.server.channel.engine.evaluate(readouts, clients)
            if counts is not None:
                # What the clients would have sent and received, had each evaluated for itself.
                report = Payload(monitoring={"tested": 0, **dict.fromkeys(readouts, 0)})
                if asked := blank(readouts, self.server.task.statistics, self.server.task.classes):
                    report.add(KIND, asked, KIND)
                self.ledger.down(down, len(clients), training=False)
                self.ledger.up(report, training=False, copies=len(clients))
                return counts
        replies = self.server.exchange(STEP if personal else "evaluate", clients, down)
        numbers = [upload.payload.numbers["monitoring"] for upload in replies]
        # An algorithm whose clients have models of their own may judge those too.
        judged = list(readouts)
        if numbers:
            common = set.intersection(*(set(n) for n in numbers)) - {"tested"}
            judged = [name for name in numbers[0] if name in common]
        return Counts(
            [upload.client for upload in replies],
            [int(n["tested"]) for n in numbers],
            {name: [int(n[name]) for n in numbers] for name in judged},
            {name: [of_readout(upload.payload, name) for upload in replies] for name in judged},
        )
