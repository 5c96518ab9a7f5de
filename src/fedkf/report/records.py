"""The shapes of what a run writes, checked: whatever does not fit is damage, not data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=0)]


class Loose(BaseModel):
    """Unknown keys are ignored: a newer fedkf may write more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Numbers(Loose):
    """AMP, FM and WLP of a readout; nothing where no client has test data."""

    amp: Share | None = None
    fm: Share | None = None
    wlp: Share | None = None


class Score(Numbers):
    """The numbers with the accuracy of each client."""

    clients: list[Whole]
    of: Whole | None = None
    accuracy: list[Share | None]

    @model_validator(mode="after")
    def _as_many(self) -> Score:
        if len(self.clients) != len(self.accuracy):
            raise ValueError("as many accuracies as clients")
        return self


class Refusal(Loose):
    client: int
    reason: str = ""


class Round(Loose):
    """A line of rounds.jsonl."""

    round: Annotated[int, Field(ge=1)]
    active: list[Whole] = []
    refused: list[Refusal] = []
    readouts: dict[str, Score] | None = None
    losses: dict[str, Finite] = {}
    bytes: dict[str, Whole] = {}
    seconds: dict[str, Finite] = {}


class Summary(Loose):
    """summary.json."""

    algorithm: str
    rounds: Whole
    seed: int = 0
    readouts: dict[str, Numbers] = {}
    best: dict[str, dict[str, Finite | None]] = {}
    seconds: dict[str, Finite] = {}
    bytes: dict[str, Whole] = {}
    disclosed: list[str] = []


class Status(Loose):
    """status.json."""

    state: str = "unknown"
    round: Whole = 0
    rounds: Whole = 0
    active: list[Whole] = []
    heartbeat: Finite = 0.0
    reason: str = ""


class Site(Loose):
    """A client in partition.json; class counts in a simulation only."""

    name: str
    train: Whole = 0
    test: Whole = 0
    classes: list[Whole] | None = None


class Partition(Loose):
    """partition.json."""

    class_names: list[str] = []
    total_variation: Finite | None = None
    clients: list[Site] = []


class Ledger(Loose):
    """ledger.json."""

    training: dict[str, dict[str, Whole]] = {}
    evaluation: dict[str, dict[str, Whole]] = {}
    disclosed: list[str] = []
    leakage: list[str] = []
