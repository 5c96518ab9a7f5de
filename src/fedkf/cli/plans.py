"""Many runs at a time, with one display for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fedkf.cli.consoles import err, show
from fedkf.cli.interruption import interruptible
from fedkf.cli.options import refuse_file
from fedkf.core.errors import FedkfError
from fedkf.paper.tables import ResultTable
from fedkf.runs.load import cores
from fedkf.runs.search import run_search
from fedkf.runs.space import Search
from fedkf.runs.suite import Finished, Plan
from fedkf.runs.sweep import Failure, Watcher, sweep
from fedkf.runs.trials import Trial


def run_plans(
    plans: Sequence[Plan],
    folder: Path,
    jobs: int | None = None,
    records: Path | None = None,
    quiet: bool = False,
) -> tuple[dict[str, Finished], list[Failure]]:
    """Run what is not finished, with one display for all of it."""
    if not plans:
        return {}, []
    refuse_file(folder)
    jobs = jobs or cores()
    display = Display(err, jobs, quiet)
    sentence = f"stopped; nothing that was finished is lost, the same command goes on ({folder})"
    with interruptible(sentence), display.shown():
        return sweep(plans, folder, jobs, records, watcher=display)


def run_trials(
    asked: Search,
    folder: Path,
    jobs: int | None = None,
    records: Path | None = None,
    quiet: bool = False,
) -> dict[str, list[Trial]]:
    """The trials of a search that are left, with one display for all of them; all trials."""
    refuse_file(folder)
    jobs = jobs or cores()
    display = Display(err, jobs, quiet)
    sentence = f"stopped; no trial that ended is lost, the same command goes on ({folder})"
    with interruptible(sentence), display.shown():
        found, failures = run_search(asked, folder, jobs, records, display)
    raise_failures(failures, folder)
    return found


def raise_failures(failures: Sequence[Failure], folder: Path) -> None:
    """End with the first run that failed, if any did."""
    if failures:
        first = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise FedkfError(
            f"{first.plan.name} failed{more}: {first.reason}; the same command tries again "
            f"({folder})"
        )


def show_tables(tables: Sequence[ResultTable]) -> None:
    """As Markdown, narrow enough for a terminal: one group of columns at a time."""
    for table in tables:
        for part in table.groups():
            show(part.markdown())


class Display(Watcher):
    """A bar over all rounds of all runs; on files and pipes a line per finished run."""

    def __init__(self, console: Console, jobs: int, quiet: bool = False) -> None:
        self.console, self.jobs, self.quiet = console, jobs, quiet
        self.left: dict[str, int] = {}
        self.algorithm: dict[str, str] = {}
        self.pace: dict[str, list[float]] = {}
        self.now: dict[str, str] = {}
        self.began = time.monotonic()
        self.runs = self.done = 0
        self.bar = Progress(
            TextColumn("{task.fields[runs]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}"),
            console=console,
            auto_refresh=False,  # no thread: runs are forked from this process
            disable=quiet or not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, runs="", text="")

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self.bar:
            yield

    def planned(self, plans: Sequence[Plan], finished: Sequence[Plan]) -> None:
        ready = {plan.name for plan in finished}
        self.runs, self.done = len(plans), len(ready)
        for plan in plans:
            self.algorithm[plan.name] = plan.config.algorithm.name
            if plan.name not in ready:
                self.left[plan.name] = plan.config.federation.rounds
        self.bar.update(self.task, total=sum(self.left.values()))
        if ready:
            self.say(f"{len(ready)} of {len(plans)} runs are finished already")

    def round_finished(self, plan: Plan, record: dict[str, Any]) -> None:
        rounds = plan.config.federation.rounds
        self.left[plan.name] = rounds - record["round"]
        self.pace.setdefault(plan.config.algorithm.name, []).append(record["seconds"])
        self.now[plan.name] = f"{plan.name} {record['round']}/{rounds}"

    def run_finished(self, plan: Plan) -> None:
        self.done += 1
        self._ended(plan)
        if not self.console.is_terminal:
            self.say(f"{self.done}/{self.runs} runs  {plan.name} finished  {self.eta()} left")

    def run_failed(self, plan: Plan, reason: str) -> None:
        self._ended(plan)
        self.say(f"{plan.name} failed: {reason}")

    def _ended(self, plan: Plan) -> None:
        self.left.pop(plan.name, None)
        self.now.pop(plan.name, None)

    def tick(self) -> None:
        total = self.bar.tasks[0].total or 0
        text = f"{self.eta()} left  {'  '.join(self.now.values())}"
        self.bar.update(
            self.task,
            completed=total - sum(self.left.values()),
            runs=f"{self.done}/{self.runs} runs",
            text=text,
        )
        self.bar.refresh()

    def eta(self) -> timedelta:
        """Rounds to go at each algorithm's own pace, shared by the jobs."""
        everything = [s for pace in self.pace.values() for s in pace]
        typical = sum(everything) / len(everything) if everything else 0.0
        seconds = 0.0
        for name, rounds in self.left.items():
            pace = self.pace.get(self.algorithm[name])
            seconds += rounds * (sum(pace) / len(pace) if pace else typical)
        return timedelta(seconds=round(seconds / max(1, min(self.jobs, len(self.left)))))

    def say(self, text: str) -> None:
        if not self.quiet:
            self.bar.console.print(text, markup=False, soft_wrap=True)
