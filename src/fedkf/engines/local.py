"""The local engine: persistent worker processes, any of which serves any client.

Workers are forked, so data, model factories and the algorithm are theirs without copying or
pickling; payloads travel as safetensors bytes, private state as files.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch

from fedkf.core.algorithm import correct
from fedkf.core.client import Call, ClientHost, Reply, StepFailed
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Counts
from fedkf.data.federated import FederatedData

CHUNK = 256
"""Test samples per pass; fixed, so that results do not depend on the number of workers."""

Job = dict[str, Any]


class Desk:
    """Does one job at a time, in a worker or in the calling process."""

    def __init__(self, host: ClientHost, data: FederatedData) -> None:
        self.host, self._data = host, data
        self._on_device: FederatedData | None = None
        host.data = lambda client: self.data.client(client)  # from this process's device

    @property
    def data(self) -> FederatedData:
        if self._on_device is None:
            self._on_device = self._data.to(self.host.task.device, self.host.task.layout)
        return self._on_device

    def step(self, job: Job, down: Payload) -> Reply:
        return self.host.perform(Call(**job["call"]), down)

    def count(self, job: Job, down: Payload) -> Payload:
        """How many test samples of some clients each readout classifies correctly."""
        parts = [self.data.client(k) for k in job["clients"]]
        images = torch.cat([part.test_images for part in parts])
        labels = torch.cat([part.test_labels for part in parts])
        sizes = [len(part.test_labels) for part in parts]
        counts = {}
        for name in down:
            model = self.host.task.load("student", down[name]).eval()
            hits = correct(model, images, labels, CHUNK).split(sizes)
            counts[name] = torch.stack([part.sum() for part in hits])
        return Payload(counts=counts)


class LocalEngine:
    """Runs clients in `workers` processes, or in this one if that is 0."""

    def __init__(
        self,
        host: ClientHost,
        data: FederatedData,
        workers: int,
        threads: int = 1,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.data, self.threads, self.say = data, threads, say
        self._desk = Desk(host, data)
        self._numbers = itertools.count(1)
        self._threads_before = torch.get_num_threads()
        # With workers, this process only adds up weights; and a forked child can start threads of
        # its own only if its parent never used several.
        torch.set_num_threads(1 if workers else threads)
        self._workers: list[Worker] = []
        if host.task.device == "cpu":
            _ = self._desk.data  # laid out once, before forking: workers share its pages
        if workers:
            # The first optimizer of a process imports a second's worth of PyTorch: once is enough.
            torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        try:
            for index in range(workers):
                self._workers.append(self._hire(index))
        except BaseException:
            self.close()
            raise

    def _hire(self, index: int) -> Worker:
        others = [w.connection for w in self._workers if w.index != index]
        return Worker(index, self._desk, self.threads, others)

    # -- the engine's two services --------------------------------------------------------------

    def exchange(self, calls: Sequence[Call], down: Payload) -> Iterator[Reply]:
        sizes = self.data.sizes
        longest_first = sorted(calls, key=lambda c: (-sizes[c.client], c.client))
        jobs: list[Job] = [{"do": "step", "call": asdict(call)} for call in longest_first]
        if not self._workers:
            for job in jobs:
                yield self._here(job, down)
            return
        for job, header, payload in self._dispatch(jobs, down):
            call = Call(**job["call"])
            if "error" in header:
                yield Reply(call, error=header["error"], details=header.get("details", ""))
            else:
                yield Reply(call, Payload.from_bytes(payload), header["wrote_state"])

    def _here(self, job: Job, down: Payload) -> Reply:
        """A step in this process: an error stops the run and says where it happened."""
        try:
            return self._desk.step(job, down)
        except StepFailed as error:
            raise FedkfError(str(error)) from error.__cause__

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> Counts:
        down = Payload()
        for name, weights in readouts.items():
            down.add(name, weights, "weights")
        tested = self.data.test_sizes
        jobs: list[Job] = [{"do": "count", "clients": g} for g in grouped(clients, tested)]
        counts: dict[str, dict[int, int]] = {name: dict.fromkeys(clients, 0) for name in readouts}

        def keep(job: Job, answer: Payload) -> None:
            for name, values in answer["counts"].items():
                counts[name].update(zip(job["clients"], values.tolist(), strict=True))

        if self._workers:
            for job, header, payload in self._dispatch(jobs, down):
                if "error" in header:
                    raise FedkfError(f"evaluation failed: {header['error']}")
                keep(job, Payload.from_bytes(payload))
        else:
            for job in jobs:
                keep(job, self._desk.count(job, down))
        correct_per_client = {name: list(found.values()) for name, found in counts.items()}
        return Counts(list(clients), [tested[k] for k in clients], correct_per_client)

    def close(self) -> None:
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.bury()
        self._workers = []
        torch.set_num_threads(self._threads_before)

    # -- workers --------------------------------------------------------------------------------

    def _dispatch(
        self, jobs: Sequence[Job], down: Payload
    ) -> Iterator[tuple[Job, dict[str, Any], bytes]]:
        """Give every idle worker the next job; results come as they finish.

        A worker that dies is replaced and its job done once more; if that dies too, the job failed.
        """
        number, content = next(self._numbers), down.to_bytes()
        queue, tries = deque(jobs), {id(job): 0 for job in jobs}
        busy: dict[Connection, tuple[Worker, Job]] = {}
        while queue or busy:
            for worker in self._workers:
                if queue and worker.connection not in busy:
                    job = queue.popleft()
                    tries[id(job)] += 1
                    busy[worker.connection] = (worker, job)
                    with contextlib.suppress(OSError):  # a dead worker is met below
                        worker.give(job, number, content)
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                worker, job = busy[connection]
                try:
                    header, payload = receive(connection)
                    if header["number"] != number:
                        continue  # of an exchange that was given up
                    del busy[connection]
                except (EOFError, OSError):
                    del busy[connection]
                    cause = worker.bury()
                    self._workers[worker.index] = self._hire(worker.index)
                    what = describe(job)
                    if tries[id(job)] == 1:
                        self.say(f"worker {worker.index} died ({cause}) on {what}; started again")
                        queue.appendleft(job)
                    else:
                        yield job, {"error": f"its worker died twice ({cause})"}, b""
                    continue
                if header.get("stop"):
                    kind = UserError if header["stop"] == "user" else FedkfError
                    raise kind(header["error"])
                yield job, header, payload


def grouped(clients: Sequence[int], tested: Sequence[int]) -> list[list[int]]:
    """Neighbouring clients whose test samples make up a few passes; those without are left out."""
    groups: list[list[int]] = []
    room = 0
    for k in clients:
        if tested[k] == 0:
            continue
        if room <= 0:
            groups.append([])
            room = 2 * CHUNK
        groups[-1].append(k)
        room -= tested[k]
    return groups


def describe(job: Job) -> str:
    call = job.get("call")
    return f"client {call['client']} ({call['step']})" if call else "the evaluation"


@dataclass
class Worker:
    """A worker process as its parent sees it."""

    index: int

    def __init__(self, index: int, desk: Desk, threads: int, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.index, self._down = index, 0
        self.connection, theirs = context.Pipe()
        # The child must not hold the parent's ends: a worker ends when its parent's end closes.
        held = [*others, self.connection]
        self.process = context.Process(
            target=work, args=(theirs, held, desk, threads), name=f"fedkf-{index}", daemon=True
        )
        with warnings.catch_warnings():
            # A worker touches nothing that another thread may hold: its pipe, its files, torch.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            self.process.start()
        theirs.close()
        try:
            started = self.connection.poll(30) and receive(self.connection)
        except (EOFError, OSError):
            started = False
        if not started:
            self.bury()
            raise FedkfError(
                "a worker process did not start; with engine.threads above 1 this happens when the "
                "calling program has already used several threads: set engine.threads to 1"
            )

    def give(self, job: Job, number: int, content: bytes) -> None:
        """Send a job, and the payload that goes with it unless the worker has it already."""
        fresh = self._down != number
        self._down = number
        send(self.connection, {**job, "fresh": fresh, "number": number}, content if fresh else b"")

    def dismiss(self) -> None:
        with contextlib.suppress(OSError):
            send(self.connection, {"do": "leave"}, b"")

    def bury(self) -> str:
        """Make sure the process is gone; how it ended."""
        self.connection.close()
        self.process.join(0.2)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def send(connection: Connection, header: Mapping[str, Any], payload: bytes) -> None:
    connection.send_bytes(json.dumps(header).encode())
    connection.send_bytes(payload)


def receive(connection: Connection) -> tuple[dict[str, Any], bytes]:
    return json.loads(connection.recv_bytes()), connection.recv_bytes()


# -- in the worker ---------------------------------------------------------------------------------


def work(connection: Connection, held: Sequence[Connection], desk: Desk, threads: int) -> None:
    """A worker's life: take a job, do it, answer; end when told to or when the parent is gone."""
    for other in held:
        other.close()
    # Streams of its own: another thread of the parent may have held theirs; stdout is the parent's.
    sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(threads)
    if threads > 1:
        torch.ones(1 << 20).sum()  # hangs here, and is noticed, if threads cannot be started
    send(connection, {"ready": True}, b"")
    down = Payload()
    while True:
        try:
            job, content = receive(connection)
        except (EOFError, OSError):
            return
        if job["do"] == "leave":
            return
        if job["fresh"]:
            down = Payload.from_bytes(content)
        header, payload = answer(desk, job, down)
        try:
            send(connection, {**header, "number": job["number"]}, payload)
        except OSError:
            return


class Worktop(Protocol):
    """Where jobs are done: a Desk, or what stands in for one."""

    def step(self, job: Job, down: Payload) -> Reply: ...
    def count(self, job: Job, down: Payload) -> Payload: ...


def answer(desk: Worktop, job: Job, down: Payload) -> tuple[dict[str, Any], bytes]:
    """Do a job. What the algorithm raises is the client's failure; our own errors stop the run."""
    try:
        if job["do"] == "count":
            return {}, desk.count(job, down).to_bytes()
        reply = desk.step(job, down)
        assert reply.upload is not None
        return {"wrote_state": reply.wrote_state}, reply.upload.to_bytes()
    except StepFailed as error:
        return {"error": error.reason, "details": traceback.format_exc()}, b""
    except UserError as error:
        return {"stop": "user", "error": str(error)}, b""
    except Exception as error:
        return {"stop": "world", "error": f"{error} ({describe(job)})"}, b""


def end_with(parent: int) -> None:
    """End this process within a fraction of a second after its parent's death."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
