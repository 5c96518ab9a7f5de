"""Worker: a process that does jobs for any client, as its parent sees it and from within.

Workers are forked, so data, model factories and the algorithm are theirs without copying or
pickling; payloads travel as safetensors bytes, private state as files.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedkf.core.client import Call, ClientHost, StepFailed
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload

Job = dict[str, Any]
"""`{"do": "step", "call": …}` or `{"do": "count", "clients": …}`."""


class Worker:
    """A worker process as its parent sees it."""

    def __init__(
        self, index: int, host: ClientHost, threads: int, others: Sequence[Connection]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.index, self._down, self._whole = index, 0, True
        self.connection, theirs = context.Pipe()
        # The child must not hold the parent's ends: a worker ends when its parent's end closes.
        held = [*others, self.connection]
        self.process = context.Process(
            target=work, args=(theirs, held, host, threads), name=f"fedkf-{index}", daemon=True
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
            self.end()
            raise FedkfError(
                "a worker process did not start; with engine.threads above 1 this happens when the "
                "calling program has already used several threads: set engine.threads to 1"
            )

    def give(self, job: Job, number: int, content: bytes) -> None:
        """Send a job, and the payload that goes with it unless the worker has it already."""
        fresh = self._down != number
        self._down = number
        self._whole = False
        send(self.connection, {**job, "fresh": fresh, "number": number}, content if fresh else b"")
        self._whole = True

    def dismiss(self) -> None:
        """Let it go; after a job that Ctrl-C broke off in the middle, a word would be misread."""
        with contextlib.suppress(OSError):
            if self._whole:
                send(self.connection, {"do": "leave"}, b"")

    def end(self, patience: float = 0.2) -> str:
        """Make sure the process is gone, after so many seconds to go by itself; how it ended."""
        self.connection.close()
        self.process.join(patience)
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


def work(
    connection: Connection, held: Sequence[Connection], host: ClientHost, threads: int
) -> None:
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
        header, payload = answer(host, job, down)
        try:
            send(connection, {**header, "number": job["number"]}, payload)
        except OSError:
            return


def describe(job: Job) -> str:
    call = job.get("call")
    return f"client {call['client']} ({call['step']})" if call else "the evaluation"


def answer(host: ClientHost, job: Job, down: Payload) -> tuple[dict[str, Any], bytes]:
    """Do a job. What the algorithm raises is the client's failure; our own errors stop the run."""
    try:
        if job["do"] == "count":
            return {}, host.count(job["clients"], down).to_bytes()
        reply = host.perform(Call(**job["call"]), down)
        assert reply.upload is not None
        return {"wrote_state": reply.wrote_state}, reply.upload.to_bytes()
    except StepFailed as error:
        return {"error": error.reason, "details": traceback.format_exc()}, b""
    except UserError as error:
        return {"stop": "user", "error": str(error), "details": traceback.format_exc()}, b""
    except Exception as error:
        about = {"error": f"{error} ({describe(job)})", "details": traceback.format_exc()}
        return {"stop": "world", **about}, b""


def end_with(parent: int) -> None:
    """End this process within a fraction of a second after its parent's death."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
