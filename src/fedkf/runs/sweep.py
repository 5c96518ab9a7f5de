"""Sweep: the runs of a suite, each in a process of its own, as many at a time as there are cores.

A run that was broken off is resumed, a finished one is not repeated. Children die with the parent,
so a sweep that is killed leaves nothing behind but what the next one goes on with.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Observer
from fedkf.core.records import Round
from fedkf.core.server import Diverged
from fedkf.core.threads import threads
from fedkf.engines.worker import end_with
from fedkf.runs.experiment import execute
from fedkf.runs.load import cores
from fedkf.runs.resuming import refuse_changes, refuse_lost
from fedkf.runs.setup import load_source
from fedkf.runs.store import RunFolder
from fedkf.runs.suite import Finished, Plan, answers, difference, record_in, records

SAMPLES = {"source", "path", "image_size"}
"""The keys of `data` that say which samples are decoded."""

RECORD = ("config.yaml", "rounds.jsonl", "summary.json")
"""What is worth keeping of a run, in the order of copying: the summary makes it finished."""


class Watcher:
    """Something that watches a sweep."""

    def planned(self, plans: Sequence[Plan], finished: Sequence[Plan]) -> None: ...
    def round_finished(self, plan: Plan, record: dict[str, Any]) -> None: ...
    def run_finished(self, plan: Plan) -> None: ...
    def run_failed(self, plan: Plan, reason: str) -> None: ...
    def tick(self) -> None: ...


@dataclass(frozen=True)
class Failure:
    """A run that came to no end, and why."""

    plan: Plan
    reason: str
    kind: str = "failed"
    """failed (the world did), diverged (its uploads were unusable) or mistake (the user's)."""


Ended = Callable[[Plan, Failure | None], None]
"""Hears of every run that ended, well or badly."""


@dataclass
class _Child:
    plan: Plan
    process: Any
    pipe: Connection
    ended: bool = False
    failure: Failure | None = None


def sweep(
    plans: Sequence[Plan],
    folder: Path,
    jobs: int | None = None,
    keep: Path | None = None,
    look_in: Sequence[Path] = (),
    watcher: Watcher = Watcher(),  # noqa: B008
) -> tuple[dict[str, Finished], list[Failure]]:
    """Run what is not finished; the finished runs by their plan's name, and what failed.

    Records are looked for below `folder`, `keep` and `look_in`, whatever their folder's name; each
    run that finishes is also copied to `keep`. A mistake of the user's stops the sweep at once.
    """
    places = [folder, *([keep] if keep else []), *look_in]
    found = records(places)
    done = {plan.name: record for plan in plans if (record := answers(plan, found))}
    for name, record in done.items():
        if keep is not None:
            keep_record(record.path, keep / name)
    waiting = deque(plan for plan in plans if plan.name not in done)
    for plan in waiting:
        refuse_other(plan, RunFolder(folder / plan.name))
    watcher.planned(plans, [plan for plan in plans if plan.name in done])
    prepare(waiting)
    failures: list[Failure] = []

    def ended(plan: Plan, failure: Failure | None) -> None:
        if failure is not None:
            if failure.kind == "mistake":
                raise UserError(f"{plan.name}: {failure.reason}")
            failures.append(failure)
        else:
            tidy(folder / plan.name)
            if keep is not None:
                keep_record(folder / plan.name, keep / plan.name)

    begun = bool(waiting)
    run_processes(waiting, folder, jobs, watcher, ended)
    found = records(places) if begun else found
    done = {plan.name: record for plan in plans if (record := answers(plan, found))}
    return done, failures


def run_processes(
    waiting: deque[Plan], folder: Path, jobs: int | None, watcher: Watcher, ended: Ended
) -> None:
    """Run what waits, at most `jobs` at a time, each below `folder` under its name.

    `ended` hears of every run as it ends and may let more wait.
    """
    children: list[_Child] = []
    limit = max(1, jobs or cores())
    with _ending(children):
        while waiting or children:
            while waiting and len(children) < limit:
                plan = waiting.popleft()
                children.append(_start(plan, folder / plan.name))
            for child in _news(children, watcher):
                children.remove(child)
                ended(child.plan, child.failure)
                if child.failure is None:
                    watcher.run_finished(child.plan)
                else:
                    watcher.run_failed(child.plan, child.failure.reason)
            watcher.tick()


@threads(1)  # the children's workers may be given several, see `execute`
def prepare(plans: Iterable[Plan]) -> None:
    """Do once what every child would do again: import what training imports, decode the data.

    Data that is missing is told here, before anything runs.
    """
    sources = {str(plan.config.data.model_dump(include=SAMPLES)): plan.config for plan in plans}
    for config in sources.values():
        load_source(config)
    if sources:
        weight = torch.nn.Parameter(torch.zeros(1))
        weight.grad = torch.zeros(1)
        torch.optim.SGD([weight], lr=1.0).step()  # imports a good deal the first time


def tidy(run: Path) -> None:
    """A finished run needs no checkpoint; with a generator for every client they fill disks."""
    if (run / "summary.json").exists():
        shutil.rmtree(run / "checkpoint", ignore_errors=True)


def refuse_other(plan: Plan, run: RunFolder) -> None:
    """Refuse to begin a sweep where a run stands in a plan's place that cannot become it."""
    try:
        began = run.config() if run.begun() else None
        if began is not None:
            refuse_changes(began, plan.config, len(run.rounds()), settled=False)
            refuse_lost(run)
    except UserError as error:
        raise UserError(f"{plan.name}: {error}") from None
    except FedkfError:
        return  # what is damaged is that run's failure alone


def keep_record(run: Path, to: Path) -> None:
    """Copy what tells a run's story without its models, the summary last.

    A record of another experiment that has the name makes room; nothing of it is left.
    """
    if run.absolute() == to.absolute():
        return
    new, old = record_in(run), record_in(to)
    if old is not None and (new is None or difference(new.config, old.config) is None):
        return
    to.mkdir(parents=True, exist_ok=True)
    (to / "summary.json").unlink(missing_ok=True)
    for name in RECORD:
        shutil.copyfile(run / name, to / f".{name}.tmp")
        os.replace(to / f".{name}.tmp", to / name)


def _news(children: Sequence[_Child], watcher: Watcher) -> Iterator[_Child]:
    """Hear what the children have to say; yields those that ended."""
    ready = wait([child.pipe for child in children], timeout=1)
    for child in list(children):
        if child.pipe not in ready:
            continue
        try:
            kind, content = child.pipe.recv()
        except (EOFError, OSError):
            child.process.join()
            if not child.ended:
                reason = f"its process ended with {child.process.exitcode}"
                child.failure = Failure(child.plan, reason)
            yield child
            continue
        if kind == "round":
            watcher.round_finished(child.plan, content)
        else:
            child.ended = True
            if kind != "finished":
                child.failure = Failure(child.plan, content, kind)


@contextlib.contextmanager
def _ending(children: list[_Child]) -> Iterator[None]:
    """Whatever happens, no child outlives the sweep; each leaves its run resumable."""
    try:
        yield
    finally:
        for child in children:
            child.process.terminate()
        for child in children:
            child.process.join(10)
            if child.process.is_alive():
                child.process.kill()
                child.process.join()


# -- in the child ----------------------------------------------------------------------------------


def _start(plan: Plan, folder: Path) -> _Child:
    # Forked, so that each run starts at once instead of importing torch again.
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(  # type: ignore[attr-defined]
        target=_run, args=(plan, folder, theirs, os.getpid()), name=f"fedkf {plan.name}"
    )
    process.start()
    theirs.close()
    return _Child(plan, process, ours)


class _Tell(Observer):
    """Sends the parent a line about every round."""

    def __init__(self, send: Callable[[str, Any], None]) -> None:
        self.send = send

    def round_finished(self, record: Round) -> None:
        self.send("round", {"round": record.round, "seconds": record.seconds["total"]})


def _run(plan: Plan, folder: Path, pipe: Connection, parent: int) -> None:
    """One run from where it stands, with nothing said but through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()

    def send(kind: str, content: Any) -> None:
        with contextlib.suppress(OSError):
            pipe.send((kind, content))

    try:
        execute(plan.config, folder, resume=True, observers=[_Tell(send)])
        send("finished", None)
    except KeyboardInterrupt:
        os._exit(130)
    except UserError as error:
        send("mistake", str(error))
    except Diverged as error:
        send("diverged", str(error))
    except FedkfError as error:
        send("failed", str(error))
    except Exception as error:
        send("failed", " ".join(f"{type(error).__name__}: {error}".split()))


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt
