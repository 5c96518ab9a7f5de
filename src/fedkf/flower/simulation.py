"""Flower's simulation in the calling process: its nodes are served by actors of Ray.

The simulation runs in a thread and hands over its grid, so that the round loop stays in the main
one, with its progress, Ctrl-C and exit codes. Which node a message goes to makes no difference:
the call names the client, and any actor serves any client.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from fedkf.core.client import ClientHost
from fedkf.core.errors import FedkfError, UserError
from fedkf.engines import EngineSettings
from fedkf.engines.counting import Population
from fedkf.engines.worker import answer
from fedkf.flower.carrier import FlowerEngine, Grid
from fedkf.flower.handshake import connected
from fedkf.flower.messages import make_reply, read_call, read_payload
from fedkf.flower.programs import QUIET

NODES = 256
"""Nodes of the simulation at most; clients beyond share them."""


class SimulationEngine(FlowerEngine):
    """Runs clients in Flower's simulation, on this machine or on a Ray cluster that runs."""

    stops = True

    def __init__(self, host: ClientHost, population: Population, settings: EngineSettings) -> None:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._stop = threading.Event()
        self._grids: queue.SimpleQueue[Grid | BaseException] = queue.SimpleQueue()
        start_ray(settings.workers, settings.address)
        gpus = 0.0 if host.task.device == "cpu" else 1.0 / max(1, settings.workers)
        app = make_app(host, settings.threads)
        count = min(len(population.sizes), NODES)
        # A daemon: a second Ctrl-C while it ends must not wait for it.
        self._thread = threading.Thread(target=self._simulate, args=(app, count, gpus), daemon=True)
        self._thread.start()
        try:
            grid = self._grids.get()
            if isinstance(grid, BaseException):
                raise FedkfError(f"Flower's simulation did not start: {grid}") from grid
            nodes = connected(grid, count, math.inf, 0.05, self.check)
        except BaseException:
            self.close()
            raise
        shared = {client: nodes[client % count] for client in population.sizes}
        super().__init__(grid, lambda: shared, timeout=settings.timeout, need=settings.need)

    def _simulate(self, app: ClientApp, count: int, gpus: float) -> None:
        from flwr.simulation import run_simulation

        server = ServerApp()

        @server.main()
        def main(grid: Any, context: Context) -> None:
            self._grids.put(grid)
            self._stop.wait()

        resources: Any = {"client_resources": {"num_cpus": 1, "num_gpus": gpus}}
        try:
            run_simulation(server, app, count, backend_config=resources)
        except BaseException as error:
            self._grids.put(error)

    def check(self) -> None:
        if not self._thread.is_alive():
            raise FedkfError("Flower's simulation ended by itself; resume the run to go on")

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        import ray

        ray.shutdown()
        torch.set_num_threads(self._threads_before)


def start_ray(workers: int, address: str | None) -> None:
    """Start Ray quietly on this machine, or connect to a cluster that runs already."""
    os.environ.update(QUIET)
    if address is not None:
        check_reachable(address)
    import flwr.simulation  # noqa: F401  # it sets the level of its log, so first of all
    import ray

    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # what goes wrong is told by us

    path = os.pathsep.join(p for p in (os.getcwd(), *sys.path) if p)
    settings: dict[str, Any] = {"address": address} if address else {"num_cpus": max(1, workers)}
    if not address:
        settings["_node_ip_address"] = "127.0.0.1"
    with keeping_signals():
        try:
            ray.init(
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": {**QUIET, "PYTHONPATH": path}},
                **settings,
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"engine.address: no Ray cluster at {address!r}" if address else "Ray failed"
            kind = UserError if address else FedkfError
            raise kind(f"{where}: {' '.join(str(error).split())[:200]}") from error


def check_reachable(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        with socket.create_connection((host, int(port)), timeout=10):
            pass
    except (OSError, ValueError) as error:
        raise UserError(
            f"engine.address: no Ray cluster at {address!r} (HOST:PORT or auto): {error}"
        ) from None


@contextlib.contextmanager
def keeping_signals() -> Iterator[None]:
    """Ray sets a handler for SIGTERM; the caller's stays."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main and before is not None:
            signal.signal(signal.SIGTERM, before)


# -- in an actor -----------------------------------------------------------------------------------

_hosts: dict[str, ClientHost] = {}
"""What this actor works with; made once."""


def make_app(host: ClientHost, threads: int) -> ClientApp:
    """A ClientApp that holds only a reference: what it needs lies in Ray's object store."""
    import ray

    reference = ray.put((host, threads))

    def serve(message: Message, context: Context) -> Message:
        return respond(reference, message)

    app = ClientApp()
    app.train()(serve)
    app.evaluate()(serve)
    return app


def respond(reference: Any, message: Message) -> Message:
    """Do what a message asks for, in whichever actor it reaches."""
    call, _ = read_call(message)
    key = reference.hex()
    if key not in _hosts:
        _hosts.clear()
        _hosts[key] = received(reference)
    job = {"do": "step", "call": call.__dict__}
    header, payload = answer(_hosts[key], job, read_payload(message))
    return make_reply(message, call, header, payload)


def received(reference: Any) -> ClientHost:
    """The host in this process, ready for work."""
    import ray

    from fedkf.core.allocator import keep_freed_memory

    host: ClientHost
    host, threads = ray.get(reference)
    torch.set_num_threads(threads)
    keep_freed_memory()
    return host
