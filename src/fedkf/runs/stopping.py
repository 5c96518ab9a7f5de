"""When a run ends before its last round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fedkf.core.federation import Federation, Observer, Stop
from fedkf.core.records import Round, Summary, better
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder

READOUT = "oca"
ROUNDS, PATIENCE, BUDGET, STOPPED = "rounds", "patience", "budget", "stopped"
"""What ends a run: the last of its rounds, no progress, no privacy left to spend, an observer."""


class Patience(Observer):
    """Ends a run whose AMP was not higher for so many evaluated rounds (`federation.patience`).

    It knows the rounds before a resume, so that a run that was interrupted ends where it would
    have ended.
    """

    def __init__(self, patience: int | None, past: Sequence[Round]) -> None:
        self.patience, self.highest, self.since = patience, -math.inf, 0
        for record in past if patience is not None else ():
            self._see(record)

    @property
    def exhausted(self) -> bool:
        """Whether so many evaluated rounds have passed since the best one."""
        return self.patience is not None and self.since >= self.patience

    def _see(self, record: Round) -> None:
        if record.readouts is None:
            return
        score = record.readouts.get(READOUT)
        amp = None if score is None else score["amp"]
        if score is not None and amp is not None and better(score.metric) * amp > self.highest:
            self.highest, self.since = better(score.metric) * amp, 0
        elif self.highest > -math.inf:
            self.since += 1

    def round_finished(self, record: Round) -> None:
        self._see(record)
        if self.exhausted:
            raise Stop


def ending(federation: Federation, patience: Patience) -> str:
    """What ended a run that has ended."""
    if federation.done >= federation.schedule.rounds:
        return ROUNDS
    if patience.exhausted:
        return PATIENCE
    return STOPPED if federation.stopping else BUDGET


def out_of_budget(config: Config, summary: Summary, rounds: Sequence[Round]) -> bool:
    """Whether a run ended since no client had any privacy left to spend.

    Of an older summary, which does not say: whether everyone had all of the turns that the noise
    for its ε was made for.
    """
    settings = config.privacy
    made = settings.epsilon is not None and settings.noise is None and settings.turns is not None
    if summary.ended or not made:
        return summary.ended == BUDGET
    had = Counter(client for r in rounds if r.privacy for client in r.privacy.clients)
    return all(had[client] >= (settings.turns or 0) for client in range(config.data.clients))


def whole(run: RunFolder, config: Config, summary: Summary) -> bool:
    """Whether a finished run went as far as its own configuration has it go."""
    settings = config.federation
    if summary.rounds == settings.rounds or summary.ended:
        return summary.rounds == settings.rounds or summary.ended in (PATIENCE, BUDGET)
    rounds = run.rounds()
    return Patience(settings.patience, rounds).exhausted or out_of_budget(config, summary, rounds)


def complete(run: RunFolder, config: Config) -> bool:
    """Whether a run is finished and this configuration asks for no more of it."""
    if not run.finished():
        return False
    rounds, settings = run.rounds(), config.federation
    if len(rounds) >= settings.rounds or Patience(settings.patience, rounds).exhausted:
        return True
    began = run.config() if config.privacy.on else None
    if began is None:
        return False
    return out_of_budget(began, run.read_record("summary.json", Summary.read), rounds)
