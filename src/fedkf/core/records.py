"""Records: what a run says of itself, as values; each is also how it stands in a JSON file.

`as_json` is what is written, `read` what is accepted, or `Damage`. Unknown keys are passed over,
since a newer fedkf may write more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkf.core.groups import GroupScores
from fedkf.core.scores import Best, Numbers, Score, Sites
from fedkf.core.shapes import (
    Damage,
    finite,
    integer,
    many,
    maybe,
    named,
    read_record,
    text,
    whole,
)
from fedkf.metrics.sites import ACCURACY, SITE_METRICS


def told(**values: Any) -> dict[str, Any]:
    """What there is to tell: keys without a value are left out of the file."""
    return {key: value for key, value in values.items() if value}


@dataclass(frozen=True)
class Holdout:
    """What the readouts do at sites that took no part; their scores number the sites from 0."""

    sites: Sequence[str] = ()
    tested: Sequence[int] = ()
    readouts: Mapping[str, Score] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        scores = {name: score.as_json() for name, score in self.readouts.items()}
        return {"sites": self.sites, "tested": self.tested, "readouts": scores}

    @staticmethod
    def read(content: object) -> Holdout:
        found = read_record(
            Holdout,
            content,
            sites=many(text),
            tested=many(whole),
            readouts=named(Score.read),
        )
        for name, score in found.readouts.items():
            if not len(score.clients) == len(found.sites) == len(found.tested):
                raise Damage("must have a place for each site", ("readouts", name))
        return found


@dataclass(frozen=True)
class Refused:
    """An answer that was left out of its round, and why."""

    client: int
    reason: str = ""

    @staticmethod
    def read(content: object) -> Refused:
        return read_record(Refused, content, client=integer, reason=text)


@dataclass(frozen=True)
class Moves:
    """How far, and in which direction, each upload of a round was from the model sent."""

    clients: Sequence[int] = ()
    distance: Sequence[float | None] = ()
    ratio: Sequence[float | None] = ()
    """The distance, next to the round's median."""
    cosine: Sequence[float | None] = ()
    """Between the client's update and the mean direction of the others'."""

    def __add__(self, other: Moves) -> Moves:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Moves(*([*mine, *more] for mine, more in pairs))

    @staticmethod
    def read(content: object) -> Moves:
        some = many(maybe(finite))
        found = read_record(
            Moves, content, clients=many(whole), distance=some, ratio=some, cosine=some
        )
        if len({len(values) for values in vars(found).values()}) > 1:
            raise Damage("must be as many as clients", ("distance",))
        return found


@dataclass(frozen=True)
class Spent:
    """What clients have spent of their privacy budgets, all rounds so far together."""

    clients: Sequence[int] = ()
    epsilon: Sequence[float] = ()

    @staticmethod
    def read(content: object) -> Spent:
        found = read_record(Spent, content, clients=many(whole), epsilon=many(finite))
        if len(found.clients) != len(found.epsilon):
            raise Damage("must be as many as clients", ("epsilon",))
        return found


@dataclass(frozen=True)
class Round:
    """A finished round: a line of rounds.jsonl."""

    round: int
    active: Sequence[int] = ()
    refused: Sequence[Refused] = ()
    readouts: Mapping[str, Score] | None = None
    """The scores by readout; None for a round without evaluation."""
    losses: Mapping[str, float] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    moves: Moves = Moves()
    late: Sequence[int] = ()
    """Clients that were asked too and not waited for, since enough others had answered."""
    privacy: Spent | None = None
    """Under privacy, the ε of everyone who was asked."""
    holdout: Holdout | None = None
    uncounted: Sequence[int] = ()
    """Clients whose upload T1 left out, for with it the sums of several rounds would bare one."""
    unjudged: Sequence[Refused] = ()
    """Whose answer to the evaluation does not count, and why."""

    def __getitem__(self, key: str) -> Any:
        """A key of the line in rounds.jsonl."""
        return self.as_json()[key]

    def as_json(self) -> dict[str, Any]:
        scores = self.readouts
        return {
            "round": self.round,
            "active": self.active,
            "refused": [vars(r) for r in self.refused],
            "readouts": None if scores is None else {k: s.as_json() for k, s in scores.items()},
            "losses": self.losses,
            "bytes": self.bytes,
            "seconds": self.seconds,
            **told(
                moves=vars(self.moves) if self.moves.clients else None,
                late=self.late,
                privacy=self.privacy and vars(self.privacy),
                holdout=self.holdout and self.holdout.as_json(),
                uncounted=self.uncounted,
                unjudged=[vars(r) for r in self.unjudged],
            ),
        }

    @staticmethod
    def read(content: object) -> Round:
        found = read_record(
            Round,
            content,
            round=whole,
            active=many(whole),
            refused=many(Refused.read),
            readouts=maybe(named(Score.read)),
            losses=named(finite),
            bytes=named(whole),
            seconds=named(finite),
            moves=Moves.read,
            late=many(whole),
            privacy=maybe(Spent.read),
            holdout=maybe(Holdout.read),
            uncounted=many(whole),
            unjudged=many(Refused.read),
        )
        if found.round < 1:
            raise Damage("must be at least 1", ("round",))
        return found


OPTIONAL = {"metric", "sites", "holdout", "groups", "ended"}
"""Keys of summary.json that are there only where they say something."""


@dataclass(frozen=True)
class Summary:
    """A finished run: summary.json. The headline is the last round, the best is told beside it."""

    algorithm: str
    rounds: int
    seed: int = 0
    readouts: Mapping[str, Numbers] = field(default_factory=dict)
    best: Mapping[str, Best] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    disclosed: Sequence[str] = ()
    holdout: Holdout | None = None
    metric: str = ACCURACY
    """What of the clients the metrics are over."""
    sites: Mapping[str, Sites] = field(default_factory=dict)
    """By readout, what each client's test samples said after the last round, if they were asked."""
    groups: Mapping[str, Mapping[str, GroupScores]] = field(default_factory=dict)
    """By column of `data.groups` and readout."""
    ended: str = ""
    """What ended the run: its rounds, its patience, every client's budget, or whoever stopped it.
    Older summaries do not say."""

    def as_json(self) -> dict[str, Any]:
        last = {
            name: {**n.values, **(n.judged() if isinstance(n, Score) else {})}
            for name, n in self.readouts.items()
        }
        best = {name: {"round": b.round, **b.values} for name, b in self.best.items()}
        more = told(
            ended=self.ended,
            holdout=self.holdout and self.holdout.as_json(),
            metric=None if self.metric == ACCURACY else self.metric,
            sites={name: sites.as_json() for name, sites in self.sites.items()},
            groups={
                column: {name: scores.as_json() for name, scores in by_readout.items()}
                for column, by_readout in self.groups.items()
            },
        )
        own = {key: value for key, value in vars(self).items() if key not in OPTIONAL}
        return {**own, "readouts": last, "best": best, **more}

    @staticmethod
    def read(content: object) -> Summary:
        return read_record(
            Summary,
            content,
            algorithm=text,
            rounds=whole,
            seed=integer,
            readouts=named(Numbers.read),
            best=named(Best.read),
            seconds=named(finite),
            bytes=named(whole),
            disclosed=many(text),
            holdout=maybe(Holdout.read),
            metric=text,
            sites=named(Sites.read),
            groups=named(named(GroupScores.read)),
            ended=text,
        )


def best_round(rounds: Sequence[Round], readout: str) -> Best | None:
    """The numbers of the round in which a readout's AMP was best, the first of several."""
    scored = [(r.readouts.get(readout), r.round) for r in rounds if r.readouts]
    known = [
        (better(s.metric) * s["amp"], -number, s)
        for s, number in scored
        if s and s["amp"] is not None
    ]
    if not known:
        return None
    _, number, score = max(known, key=lambda item: item[:2])
    return Best(score.values, -number)


def better(metric: str) -> int:
    """1 where more of a client's metric is better, −1 where less is."""
    about = SITE_METRICS.get(metric)
    return 1 if about is None or about.higher_is_better else -1


@dataclass(frozen=True)
class Status:
    """What is going on in a run: status.json."""

    state: str = "unknown"
    round: int = 0
    rounds: int = 0
    active: Sequence[int] = ()
    heartbeat: float = 0.0
    reason: str = ""

    @staticmethod
    def read(content: object) -> Status:
        return read_record(
            Status,
            content,
            state=text,
            round=whole,
            rounds=whole,
            active=many(whole),
            heartbeat=finite,
            reason=text,
        )


@dataclass(frozen=True)
class Traffic:
    """Bytes per way and kind of payload, and what was disclosed: ledger.json."""

    training: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    evaluation: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    disclosed: Sequence[str] = ()
    leakage: Sequence[str] = ()

    @staticmethod
    def read(content: object) -> Traffic:
        return read_record(
            Traffic,
            content,
            training=named(named(whole)),
            evaluation=named(named(whole)),
            disclosed=many(text),
            leakage=many(text),
        )
