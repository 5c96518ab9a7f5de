"""What a person sees while a run goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

from fedkf.core.client import Reply
from fedkf.core.federation import Observer
from fedkf.core.personal import EVALUATIONS
from fedkf.core.records import Refused, Round
from fedkf.metrics import PAPER
from fedkf.metrics.sites import over


class Progress(Observer):
    """Says only what must not be missed: refused uploads and replaced workers."""

    def __init__(self, rounds: int, title: str, console: Console) -> None:
        self.rounds, self.title, self.console = rounds, title, console
        self.began = time.perf_counter()
        self.first = 0
        self.told: set[Refused] = set()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def round_started(self, round: int, active: Sequence[int]) -> None:
        if not self.first:
            self.first, self.began = round, time.perf_counter()

    def round_finished(self, record: Round) -> None:
        if not record.active:
            self.say(f"round {record.round}: no client was available, so that none trained")
        for refusal in record.refused:
            self.say(
                f"round {record.round}: client {refusal.client} was left out: {refusal.reason}"
            )
        for silent in record.unjudged:
            if silent not in self.told:  # it may be away for many rounds
                self.told.add(silent)
                self.say(
                    f"round {record.round}: client {silent.client} is missing from the metrics: "
                    f"{silent.reason}"
                )

    def pace(self, done: int) -> tuple[float, str]:
        """Seconds a round so far, and the time still to go."""
        each = (time.perf_counter() - self.began) / max(1, done - self.first + 1)
        left = timedelta(seconds=round(each * (self.rounds - done)))
        return each, str(left)


class Lines(Progress):
    """A line per round, for files and pipes."""

    def round_finished(self, record: Round) -> None:
        super().round_finished(record)
        each, left = self.pace(record.round)
        self.say(
            f"{self.title}  round {record.round}/{self.rounds}  {in_short(record)}  "
            f"{each:.2f} s/round  {left} left"
        )


class Bar(Progress):
    """A bar that moves with every client, for terminals."""

    def __init__(self, rounds: int, title: str, console: Console) -> None:
        super().__init__(rounds, title, console)
        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[round]}/{task.total:.0f}  {task.fields[text]}"),
            console=console,
        )
        self.task = self.bar.add_task(title, total=rounds, text="", round=0)
        self.share = 0.0

    def __enter__(self) -> Bar:
        self.bar.start()
        return self

    def __exit__(self, *ending: Any) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.bar.console.print(text, markup=False, soft_wrap=True)

    def round_started(self, round: int, active: Sequence[int]) -> None:
        super().round_started(round, active)
        self.share = 1 / max(1, len(active))
        self.bar.update(self.task, completed=round - 1, round=round)

    def client_finished(self, reply: Reply) -> None:
        if reply.call.step not in EVALUATIONS:
            self.bar.advance(self.task, self.share)

    def round_finished(self, record: Round) -> None:
        super().round_finished(record)
        each, left = self.pace(record.round)
        text = f"{in_short(record)}  {each:.2f} s/round  {left} left"
        self.bar.update(self.task, completed=record.round, text=text)


def in_short(record: Round) -> str:
    """The paper's metrics of each readout in a few words."""
    parts = []
    for name, score in (record.readouts or {}).items():
        if score["amp"] is not None:
            about = over(score.metric)
            numbers = [f"{about[k].label} {about[k].show(score[k])}" for k in PAPER]
            judged = f" ({len(score.clients)} of {score.of} clients)" if score.of else ""
            parts.append(f"{name.upper()} {' '.join(numbers)}{judged}")
    return " | ".join(parts)


def make_progress(rounds: int, title: str, quiet: bool, console: Console) -> Progress:
    """A bar on a terminal, lines elsewhere, next to nothing if quiet."""
    if quiet:
        return Progress(rounds, title, console)
    return (Bar if console.is_terminal else Lines)(rounds, title, console)
