"""When a run ends before its last round."""

from __future__ import annotations

from collections.abc import Sequence

from fedkf.core.federation import Observer, Stop
from fedkf.core.records import Round, best_round
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder

READOUT = "oca"


class Patience(Observer):
    """Ends a run whose AMP was not higher for so many evaluated rounds (`federation.patience`).

    It knows the rounds before a resume, so that a run that was interrupted ends where it would
    have ended.
    """

    def __init__(self, patience: int | None, past: Sequence[Round]) -> None:
        self.patience, self.rounds = patience, list(past)

    def round_finished(self, record: Round) -> None:
        self.rounds.append(record)
        if exhausted(self.patience, self.rounds):
            raise Stop


def exhausted(patience: int | None, rounds: Sequence[Round]) -> bool:
    """Whether so many evaluated rounds have passed since the best one."""
    best = best_round(rounds, READOUT)
    if patience is None or best is None:
        return False
    return sum(r.round > best.round and r.readouts is not None for r in rounds) >= patience


def complete(run: RunFolder, config: Config) -> bool:
    """Whether a run is finished and this configuration asks for no more of it."""
    if not run.finished():
        return False
    rounds = run.rounds()
    settings = config.federation
    return len(rounds) >= settings.rounds or exhausted(settings.patience, rounds)
