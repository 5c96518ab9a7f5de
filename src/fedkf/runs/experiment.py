"""Experiment: from a configuration to a finished run."""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedkf import algorithms, models
from fedkf.core.algorithm import Algorithm
from fedkf.core.client import ClientHost
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Federation, Observer, Record, Schedule, active_clients
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory, SlotFiles
from fedkf.core.payload import Payload, Weights
from fedkf.core.random import Streams
from fedkf.core.server import Server
from fedkf.core.task import Task, Training
from fedkf.data import sources
from fedkf.data.federated import FederatedData, federate
from fedkf.data.partition import partition
from fedkf.engines.local import LocalEngine
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.config import Config
from fedkf.runs.store import RunFolder, Writer

if TYPE_CHECKING:
    from torch import nn

Say = Callable[[str], None]


# -- the parts of an experiment --------------------------------------------------------------


def load_data(config: Config) -> FederatedData:
    """The clients' data that a configuration describes."""
    settings = config.data
    source = sources.load(settings.source, settings.path)
    for key in ("mean", "std"):
        count, channels = len(getattr(settings, key)), source.images.shape[3]
        if count not in (1, channels):
            raise UserError(
                f"data.{key} has {count} numbers but the images have {channels} channels"
            )
    streams = Streams(settings.seed)
    if settings.limit is not None:
        limiting = streams.numpy_generator("limit")
        source = sources.limit_per_class(source, settings.limit, limiting)
    parts = partition(
        settings.partition,
        source.labels,
        settings.clients,
        settings.alpha,
        settings.min_samples,
        streams.numpy_generator("partition"),
    )
    return federate(
        source,
        parts,
        settings.train_fraction,
        streams.numpy_generator("split"),
        settings.mean,
        settings.std,
        settings.image_size,
    )


def make_task(
    config: Config, data: FederatedData, make_model: Callable[[], nn.Module] | None = None
) -> Task:
    """The learning task that a configuration describes, for this data."""
    settings, generator = config.federation, config.generator
    steps: int | None = None
    if settings.steps == "equal":
        whole = len(data.labels) // (len(data.names) * settings.batch_size)
        steps = max(1, whole)
    elif isinstance(settings.steps, int):
        steps = settings.steps
    if make_model is None:
        factory = models.find("model.name", config.model.name, models.MODELS)
        make_model = partial(factory, data.shape, data.classes)
    make_generator = partial(
        models.find("generator.name", generator.name, models.GENERATORS),
        data.shape,
        noise=generator.noise,
        width=generator.width,
        mean=config.data.mean,
        std=config.data.std,
    )
    training = Training(
        local_epochs=settings.local_epochs,
        steps_per_epoch=steps,
        batch_size=settings.batch_size,
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )
    return Task(
        make_model=make_model,
        shape=data.shape,
        classes=data.classes,
        training=training,
        streams=Streams(settings.seed),
        make_generator=make_generator,
        noise=generator.noise,
        generator_lr=generator.lr,
        device=config.engine.device,
    )


def make_algorithm(config: Config) -> Algorithm:
    options = config.algorithm.model_dump(exclude={"name"})
    return algorithms.get(config.algorithm.name).create(options)


def provenance(data: FederatedData) -> dict[str, Any]:
    """What a stranger needs to know to repeat the run exactly."""
    packages = ("fedkf", "torch", "numpy", "safetensors")
    versions = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    revision = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "versions": versions,
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "revision": revision.stdout.strip() or None,
        "data_sha256": data.digest(),
    }


# -- running ---------------------------------------------------------------------------------


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
    make_model: Callable[[], nn.Module] | None = None,
    data: FederatedData | None = None,
) -> Result:
    """Run an experiment, or go on with one. Without a folder it leaves no files behind."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fedkf-") as temporary:
            return execute(
                config, Path(temporary), resume, observers, say, algorithm, make_model, data
            )
    run = RunFolder(folder)
    with reporting_disk_errors(run.path):
        run.claim(config, resume)
    try:
        with reporting_disk_errors(run.path):
            return _execute(config, run, observers, say, algorithm, make_model, data)
    finally:
        run.release()


def _execute(
    config: Config,
    run: RunFolder,
    observers: Sequence[Observer],
    say: Say,
    algorithm: Algorithm | None,
    make_model: Callable[[], nn.Module] | None,
    data: FederatedData | None,
) -> Result:
    if config.engine.device != "cpu" and not torch.cuda.is_available():
        raise UserError(f"engine.device is {config.engine.device!r} but PyTorch finds no CUDA here")
    algorithm = algorithm or make_algorithm(config)
    data = data or load_data(config)
    task = make_task(config, data, make_model)
    if run.finished() and len(run.rounds()) >= config.federation.rounds:
        say("this run is already finished")
        return result_of(run, task.make_model)
    writer = Writer(run, config.federation.rounds)
    checkpoint = CheckpointFolder(run / "checkpoint")
    saved = checkpoint.open()
    run.repair_rounds(saved.record if saved else None)
    if saved is None:
        write_partition(run, data)
        for k, size in enumerate(data.test_sizes):
            if size == 0:
                say(f"{data.names[k]} has no test samples and is left out of AMP, FM and WLP")
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


def write_partition(run: RunFolder, data: FederatedData) -> None:
    clients = [
        {
            "id": k,
            "name": name,
            "train": data.sizes[k],
            "test": data.test_sizes[k],
            "classes": data.class_counts(k),
        }
        for k, name in enumerate(data.names)
    ]
    run.write_json("partition.json", {"classes": data.classes, "clients": clients})


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
