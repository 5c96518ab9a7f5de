"""Clients that hang, and clients whose code would end the whole program."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import torch
from conftest import Outcome, Settings, Unsteady, model_bytes

import fedkf
from fedkf.core.algorithm import option
from fedkf.core.client import Client, ClientHost
from fedkf.core.errors import FedkfError
from fedkf.core.payload import Payload
from fedkf.engines.worker import Worker
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute
from fedkf.runs.setup import Objects


@dataclass(frozen=True)
class Ending(fedkf.FedAvg):
    """Client 1 does something in round 2 that ends a program, or never ends itself."""

    name: ClassVar[str] = "ending"
    how: str = option("", "what it does")

    def local_update(self, client: Client, down: Payload) -> Payload:
        if client.id == 1 and client.round == 2:
            match self.how:
                case "exit":
                    raise SystemExit(0)
                case "interrupt":
                    raise KeyboardInterrupt
                case "generator":
                    raise GeneratorExit
                case "signal":
                    os.kill(os.getpid(), signal.SIGINT)
                case "hang":
                    threading.Event().wait()
        return super().local_update(client, down)


ENDINGS = {
    "exit": "SystemExit: 0",
    "interrupt": "KeyboardInterrupt:",
    "generator": "GeneratorExit:",
}


def run(settings: Settings, how: str, workers: int = 0, out: Path | None = None) -> Any:
    settings["federation"]["fraction"] = 1.0
    config = resolve({**settings, "algorithm": {"name": "fedavg"}}, {"engine.workers": workers})
    return execute(config, out, given=Objects(Ending(how=how)))


@pytest.mark.parametrize("how", ENDINGS)
def test_a_client_that_would_end_the_program_is_refused_and_named(
    settings: Settings, how: str
) -> None:
    result = run(settings, how, workers=1)
    assert [len(record["refused"]) for record in result.history] == [0, 1, 0]
    (refused,) = result.history[1]["refused"]
    assert refused["client"] == 1
    assert refused["reason"].startswith(ENDINGS[how])


@pytest.mark.parametrize("how", ENDINGS)
def test_without_workers_it_is_an_error_that_names_it(settings: Settings, how: str) -> None:
    where = "client 1, local_update in round 2"
    with pytest.raises(FedkfError, match=f"{where}: {ENDINGS[how]}") as caught:
        run(settings, how)
    assert caught.value.exit_code == 1


def test_the_command_line_says_so_in_a_sentence(
    settings: Settings, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    items = {f"data.{k}": v for k, v in settings["data"].items()}
    given = [f"--set={key}={value}" for key, value in items.items()]
    name = f"--set=algorithm.name={__name__}:Ending"
    more = ["--set=algorithm.how=exit", "--set=federation.fraction=1.0", "--workers=0"]
    code, _, err = cli("run", *given, name, *more, "--quiet", "--out", tmp_path)
    assert code == 1
    assert "client 1, local_update in round 2: SystemExit: 0" in err
    assert "Traceback" not in err


def test_a_real_interrupt_still_stops_the_run(settings: Settings) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(settings, "signal")
    assert signal.getsignal(signal.SIGINT) is handler


class Leaving(Unsteady):
    """Ends the program when it is evaluated."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training and len(x) > 1:
            raise SystemExit(0)
        return super().forward(x)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_model_that_would_end_the_program_in_the_evaluation_is_an_error(
    settings: Settings, workers: int
) -> None:
    with pytest.raises(FedkfError, match="evaluation failed: SystemExit: 0"):
        fedkf.run(settings, algorithm="fedavg", model=Leaving, workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_client_that_hangs_is_ended_named_and_left_out(
    settings: Settings, tmp_path: Path, workers: int
) -> None:
    settings["federation"]["round_timeout"] = 4
    result = run(settings, "hang", workers=workers, out=tmp_path / "hung")
    assert [record["refused"] for record in result.history] == [
        [],
        [{"client": 1, "reason": "no answer within 4 s"}],
        [],
    ]
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("fedkf-")]
    # What the others did counts as if the client had failed in any other way.
    run(settings, "exit", workers=workers, out=tmp_path / "failed")
    assert model_bytes(tmp_path / "hung") == model_bytes(tmp_path / "failed")


class BrokenOff:
    """A connection on which Ctrl-C comes between a job and the payload that goes with it."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.sent = connection, 0

    def send_bytes(self, content: bytes) -> None:
        self.sent += 1
        if self.sent == 2:
            raise KeyboardInterrupt
        self.connection.send_bytes(content)

    def close(self) -> None:
        self.connection.close()


def test_a_worker_whose_job_was_broken_off_ends_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    worker = Worker(0, cast(ClientHost, None), 1, [])
    worker.connection = cast(Connection, BrokenOff(worker.connection))
    with pytest.raises(KeyboardInterrupt):
        worker.give({"do": "count", "clients": []}, 1, b"")
    worker.dismiss()
    assert worker.end(patience=10) == "exit code 0"
    assert "Traceback" not in capfd.readouterr().err
