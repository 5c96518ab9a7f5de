"""Experiment: from a configuration to a finished run."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedkf.core.algorithm import Algorithm
from fedkf.core.client import ClientHost
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Federation, Observer, Record, Schedule, active_clients
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory, SlotFiles
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Server
from fedkf.core.task import Task
from fedkf.data.describe import describe, untested
from fedkf.data.federated import FederatedData
from fedkf.data.sources import Say, Source
from fedkf.engines.local import LocalEngine
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.config import refuse_changes
from fedkf.runs.schema import Config
from fedkf.runs.setup import (
    load_source,
    make_algorithm,
    make_data,
    make_task,
    provenance,
    settle,
)
from fedkf.runs.store import RunFolder, Writer

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, history, summary and models."""

    folder: Path
    history: list[Record]
    summary: dict[str, Any]
    weights: dict[str, Weights]
    make_model: Callable[[], nn.Module]

    @cached_property
    def models(self) -> dict[str, nn.Module]:
        """The readouts "aca" and "oca" as modules, ready for evaluation."""
        built = {}
        for name, weights in self.weights.items():
            built[name] = self.make_model().eval()
            built[name].load_state_dict(weights)
        return built

    def frame(self) -> Any:
        """A tidy table (pandas) with one row per evaluated round and readout."""
        import pandas as pd

        return pd.DataFrame(
            {"round": r["round"], "readout": name, **{k: s[k] for k in ("amp", "fm", "wlp")}}
            for r in self.history
            for name, s in (r["readouts"] or {}).items()
        )


def execute(
    config: Config,
    folder: Path | None = None,
    resume: bool = False,
    observers: Sequence[Observer] = (),
    say: Say = lambda text: None,
    algorithm: Algorithm | None = None,
    make_model: Callable[..., nn.Module] | None = None,
    source: Source | None = None,
) -> Result:
    """Run an experiment, or go on with one. Without a folder it leaves no files behind."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fedkf-") as temporary:
            return execute(
                config, Path(temporary), resume, observers, say, algorithm, make_model, source
            )
    run = RunFolder(folder)
    with reporting_disk_errors(run.path):
        run.claim(resume)
    try:
        if config.engine.device != "cpu" and not torch.cuda.is_available():
            raise UserError(
                f"engine.device is {config.engine.device!r} but PyTorch finds no CUDA here"
            )
        source = source or load_source(config, say)
        config = settle(config, source)
        if existing := run.config():
            refuse_changes(existing, config)
        algorithm = algorithm or make_algorithm(config)
        data = make_data(config, source)
        task = make_task(config, data, algorithm, make_model)
        with reporting_disk_errors(run.path):
            return _execute(config, run, observers, say, algorithm, task, data)
    finally:
        run.release()


def _execute(
    config: Config,
    run: RunFolder,
    observers: Sequence[Observer],
    say: Say,
    algorithm: Algorithm,
    task: Task,
    data: FederatedData,
) -> Result:
    if run.finished() and len(run.rounds()) >= config.federation.rounds:
        say("this run is already finished")
        return result_of(run, task.make_model)
    writer = Writer(run, config.federation.rounds)
    checkpoint = CheckpointFolder(run / "checkpoint")
    saved = checkpoint.open()
    run.repair_rounds(saved.record if saved else None)
    if saved is None:
        about = describe(data)
        run.write_json("partition.json", about)
        for text in untested(about):
            say(text)
    about = provenance(data)
    if saved is not None and run.provenance().get("data_sha256") not in (
        None,
        about["data_sha256"],
    ):
        raise UserError(f"the data is not the one that the run in {run.path} began with")
    run.write_config(config, about)
    (run / "summary.json").unlink(missing_ok=True)
    streams, ledger, states = task.streams, Ledger(), checkpoint.versions("clients")
    sizes = data.sizes
    ledger.up(Payload(sizes={"train": 0}), training=True, copies=len(sizes))
    host = ClientHost(algorithm, task, streams, states, data.client)
    settings = config.federation
    active = active_clients(settings.fraction, len(sizes))
    if settings.min_clients > active:
        raise UserError(
            f"federation.min_clients is {settings.min_clients} but a round has {active} clients"
        )
    engine = LocalEngine(host, data, choose_workers(config, active), config.engine.threads, say)
    try:
        server = Server(
            task,
            sizes,
            streams,
            engine,
            states,
            ledger,
            lambda name: Memory(
                SlotFiles(checkpoint.versions(f"slots-{name}"), lambda: str(server.round)), sizes
            ),
            settings.min_clients,
        )
        schedule = Schedule(
            settings.rounds,
            settings.fraction,
            settings.evaluate_every,
            config.output.checkpoint_every,
            config.overall.scope,
        )
        federation = Federation(
            algorithm, server, engine, schedule, ledger, checkpoint, [writer, *observers]
        )
        if saved is not None:
            federation.restore(saved)
        with recording_the_end(writer, run):
            readouts = federation.run()
        finish(run, config, algorithm, readouts, ledger)
        writer.set_status("finished")
    finally:
        engine.close()
    return result_of(run, task.make_model)


def choose_workers(config: Config, active: int) -> int:
    """As many as were asked for; else one a core, or on a GPU as many as can share it."""
    if config.engine.workers is not None:
        return config.engine.workers
    if not hasattr(os, "fork"):
        return 0
    if config.engine.device != "cpu":
        return min(active, 4)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def finish(
    run: RunFolder,
    config: Config,
    algorithm: Algorithm,
    readouts: dict[str, Weights],
    ledger: Ledger,
) -> None:
    """Write the models, the ledger and, last of all, the summary."""
    from safetensors.torch import save

    from fedkf.core.payload import write_atomically

    (run / "models").mkdir(exist_ok=True)
    for name, weights in readouts.items():
        write_atomically(run / "models" / f"{name}.safetensors", save(weights))
    run.write_json("ledger.json", ledger.summary())
    run.write_json("summary.json", summarise(run.rounds(), config, algorithm, ledger))


def summarise(
    history: list[Record], config: Config, algorithm: Algorithm, ledger: Ledger
) -> dict[str, Any]:
    """The headline is the last round; the best round of each readout is told beside it."""
    numbers = ("amp", "fm", "wlp")
    last = history[-1]["readouts"]
    best = {}
    for name in last:
        scored = [
            (r["readouts"][name], r["round"]) for r in history if (r["readouts"] or {}).get(name)
        ]
        scored = [item for item in scored if item[0]["amp"] is not None]
        if scored:
            score, number = max(scored, key=lambda item: item[0]["amp"])
            best[name] = {"round": number, **{k: score[k] for k in numbers}}
    parts = history[-1]["seconds"]
    return {
        "algorithm": algorithm.name or config.algorithm.name,
        "rounds": history[-1]["round"],
        "seed": config.federation.seed,
        "readouts": {name: {k: score[k] for k in numbers} for name, score in last.items()},
        "best": best,
        "seconds": {key: round(sum(r["seconds"][key] for r in history), 3) for key in parts},
        "bytes": ledger.bytes(),
        "disclosed": ledger.disclosed(),
    }


def result_of(run: RunFolder, make_model: Callable[[], nn.Module]) -> Result:
    from safetensors.torch import load_file

    weights = {p.stem: load_file(p) for p in sorted((run / "models").glob("*.safetensors"))}
    return Result(run.path, run.rounds(), run.read_json("summary.json"), weights, make_model)


@contextlib.contextmanager
def recording_the_end(writer: Writer, run: RunFolder) -> Iterator[None]:
    """Say in status.json how the rounds ended, if they did not end well."""
    try:
        yield
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            writer.set_status("stopped")
        raise
    except BaseException as error:
        with contextlib.suppress(OSError):
            writer.set_status("failed", reason=str(error))
        raise


@contextlib.contextmanager
def reporting_disk_errors(folder: Path) -> Iterator[None]:
    """What the disk refuses, in a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            free = shutil.disk_usage(folder).free if folder.exists() else 0
            raise FedkfError(
                f"the disk is full ({free / 1e6:.0f} MB free in {folder}); free some space and "
                "resume the run: nothing that was finished is lost"
            ) from error
        raise FedkfError(
            f"cannot write {error.filename or folder}: {error.strerror or error}"
        ) from error
