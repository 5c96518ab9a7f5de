"""The local engine: persistent worker processes, any of which serves any client."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from fedkf.core.client import Call, ClientHost, Reply
from fedkf.core.details import tell
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Accept, Counts, Engine, Enough
from fedkf.engines import EngineSettings
from fedkf.engines.counting import Population, count_in_groups
from fedkf.engines.in_process import InProcessEngine
from fedkf.engines.worker import Job, Worker, describe, receive


def local_engine(host: ClientHost, population: Population, settings: EngineSettings) -> Engine:
    """Worker processes on this machine or, if there are to be none, the calling process.

    A client that hangs can be ended only where its process is not this one, so that a timeout takes
    one worker at least.
    """
    if host.task.device == "cpu":
        host.data(0)  # laid out once, before forking: workers share its pages
    if settings.workers:
        return LocalEngine(host, population, settings)
    if settings.timeout is not None:
        if hasattr(os, "fork"):
            return LocalEngine(host, population, replace(settings, workers=1))
        settings.say("federation.round_timeout has no effect: no worker processes on this system")
    return InProcessEngine(host, population, settings.threads)


def refuse_used_device(device: str) -> None:
    """A forked worker cannot use a GPU that its parent has used."""
    if device != "cpu" and torch.get_device_module(torch.device(device).type).is_initialized():
        raise UserError(
            f"engine.device is {device!r}, which this process has used already, so that no worker "
            "can use it; set engine.workers to 0, and clients take turns in this process"
        )


class Assignment(NamedTuple):
    """Who does what, and since when."""

    worker: Worker
    job: Job
    began: float


class LocalEngine:
    """Runs clients in worker processes, the largest first."""

    def __init__(self, host: ClientHost, population: Population, settings: EngineSettings) -> None:
        self.host, self.population, self.settings = host, population, settings
        self._numbers = itertools.count(1)
        self._threads_before = torch.get_num_threads()
        # This process only adds up weights; and a forked child can start threads of its own only
        # if its parent never used several.
        torch.set_num_threads(1)
        # The first optimizer of a process imports a second's worth of PyTorch: once is enough.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        self._workers: list[Worker] = []
        self._busy: dict[Connection, Assignment] = {}
        try:
            for index in range(settings.workers):
                self._workers.append(self._start_worker(index))
        except BaseException:
            self.close()
            raise

    def _start_worker(self, index: int) -> Worker:
        refuse_used_device(self.host.task.device)
        others = [w.connection for w in self._workers if w.index != index]
        return Worker(index, self.host, self.settings.threads, others)

    # -- the engine's two services --------------------------------------------------------------

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        sizes = self.population.sizes
        if not self.settings.in_order:  # the longest first
            calls = sorted(calls, key=lambda c: (-sizes[c.client], c.client))
        jobs: list[Job] = [{"do": "step", "call": asdict(call)} for call in calls]
        try:
            for job, header, payload in self._dispatch(jobs, down):
                call = Call(**job["call"])
                if "error" in header:
                    accept(Reply(call, error=header["error"], details=header.get("details", "")))
                else:
                    accept(Reply(call, Payload.from_bytes(payload), header["wrote_state"]))
        except Enough:
            for late in list(self._busy.values()):
                self._replace(late.worker, patience=0)
            raise

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> Counts:
        def count(groups: Sequence[Sequence[int]], down: Payload) -> list[Payload]:
            jobs: list[Job] = [{"do": "count", "clients": group} for group in groups]
            found = {}
            for job, header, payload in self._dispatch(jobs, down):
                if "error" in header:
                    raise FedkfError(f"evaluation failed: {header['error']}")
                found[id(job)] = Payload.from_bytes(payload)
            return [found[id(job)] for job in jobs]

        return count_in_groups(count, readouts, clients, self.population.test_sizes)

    def close(self) -> None:
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.end()
        self._workers = []
        torch.set_num_threads(self._threads_before)

    # -- workers --------------------------------------------------------------------------------

    def _dispatch(
        self, jobs: Sequence[Job], down: Payload
    ) -> Iterator[tuple[Job, dict[str, Any], bytes]]:
        """Give every idle worker the next job; results come as they finish.

        A worker that dies is replaced and its job done once more; if that dies too, the job failed.
        One that takes too long for a client's step is ended, and the step has failed at once.
        """
        number, content = next(self._numbers), down.to_bytes()
        queue, tries = deque(jobs), {id(job): 0 for job in jobs}
        busy = self._busy = {}
        while queue or busy:
            for worker in self._workers:
                if queue and worker.connection not in busy:
                    job = queue.popleft()
                    tries[id(job)] += 1
                    busy[worker.connection] = Assignment(worker, job, time.monotonic())
                    with contextlib.suppress(OSError):  # a dead worker is met below
                        worker.give(job, number, content)
            for connection in wait(list(busy), self._patience()):
                assert isinstance(connection, Connection)
                worker, job, _ = busy[connection]
                try:
                    header, payload = receive(connection)
                    if header["number"] != number:
                        continue  # of an exchange that was given up
                    del busy[connection]
                except (EOFError, OSError):
                    cause = self._replace(worker)
                    what = describe(job)
                    if tries[id(job)] == 1:
                        self.settings.say(
                            f"worker {worker.index} died ({cause}) on {what}; started again"
                        )
                        queue.appendleft(job)
                    else:
                        yield job, {"error": f"its worker died twice ({cause})"}, b""
                    continue
                if header.get("stop"):
                    tell(describe(job), header.get("details", ""))
                    kind = UserError if header["stop"] == "user" else FedkfError
                    raise kind(header["error"])
                yield job, header, payload
            for worker, job in self._overdue():
                self._replace(worker, patience=0)
                yield job, {"error": f"no answer within {self.settings.timeout:g} s"}, b""

    def _replace(self, worker: Worker, patience: float = 0.2) -> str:
        """End a worker and start another in its place; how it ended."""
        self._busy.pop(worker.connection, None)
        cause = worker.end(patience)
        self._workers[worker.index] = self._start_worker(worker.index)
        return cause

    def _patience(self) -> float | None:
        """Seconds until the next client's time is up, if any has a limit."""
        if self.settings.timeout is None:
            return None
        steps = [a.began for a in self._busy.values() if a.job["do"] == "step"]
        return max(0.0, min(steps) + self.settings.timeout - time.monotonic()) if steps else None

    def _overdue(self) -> list[tuple[Worker, Job]]:
        """Clients whose time is up, and who has not answered by now."""
        if self.settings.timeout is None:
            return []
        latest = time.monotonic() - self.settings.timeout
        return [
            (a.worker, a.job)
            for connection, a in self._busy.items()
            if a.job["do"] == "step" and a.began <= latest and not connection.poll()
        ]
