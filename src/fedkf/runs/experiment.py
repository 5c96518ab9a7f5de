"""Experiment: from a configuration to a finished run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fedkf.core.algorithm import Algorithm
from fedkf.core.allocator import keep_freed_memory
from fedkf.core.client import ClientHost
from fedkf.core.codec import Codec
from fedkf.core.errors import UserError, disk_error
from fedkf.core.extras import check_installed
from fedkf.core.federation import Federation, Observer, Record, Schedule, active_clients
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory, SlotFiles
from fedkf.core.overall import FreshMemory
from fedkf.core.payload import Payload, Weights, write_atomically
from fedkf.core.server import Engine, Server
from fedkf.core.task import Task
from fedkf.core.versions import Versions
from fedkf.data.describe import as_json, untested
from fedkf.data.federated import FederatedData
from fedkf.data.source import Say
from fedkf.engines.local import LocalEngine
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.config import flatten, refuse_changes
from fedkf.runs.schema import Config
from fedkf.runs.setup import (
    Objects,
    check_proxy,
    load_proxy,
    load_source,
    make_algorithm,
    make_data,
    make_task,
    model_factory,
    provenance,
    settle,
)
from fedkf.runs.store import RunFolder, Writer
from fedkf.runs.trackers import make_tracker
from fedkf.runs.trained import card

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, history, summary, models, and how the data was divided."""

    folder: Path
    history: list[Record]
    summary: dict[str, Any]
    weights: dict[str, Weights]
    make_model: Callable[[], nn.Module]

    @cached_property
    def partition(self) -> dict[str, Any]:
        """Who holds what: partition.json."""
        content: dict[str, Any] = RunFolder(self.folder).read_json("partition.json")
        return content

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
        try:
            import pandas as pd
        except ImportError:
            raise UserError("a table needs pandas: pip install 'fedkf[frame]'") from None

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
    given: Objects = Objects(),  # noqa: B008
) -> Result:
    """Run an experiment, or go on with one. Without a folder it leaves no files behind."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fedkf-") as temporary:
            result = execute(config, Path(temporary), resume, observers, say, given)
            _ = result.partition  # read while it is there
            return result
    run = RunFolder(folder)
    with reporting_disk_errors(run.path):
        run.claim(resume)
    try:
        existing = run.config()
        if resume and not existing:
            say(f"nothing to resume in {run.path}: this is a new run")
        if existing and run.finished() and len(run.rounds()) >= config.federation.rounds:
            refuse_changes(existing, config, settled=False)
            say("this run is already finished")
            return result_of(run, existing, given)
        check_device(config.engine.device)
        if config.engine.name == "flower":
            check_installed("flower", "engine flower needs Flower's simulation", "flwr", "ray")
        algorithm = given.algorithm or make_algorithm(config)
        check_proxy(config, algorithm)
        if config.output.log is not None:
            observers = [*observers, make_tracker(config.output.log, run.path, flatten(config))]
        source = load_source(config, say, given.source)
        config = settle(config, source)
        if existing:
            refuse_changes(existing, config)
        keep_freed_memory()
        data = make_data(config, source)
        proxy = load_proxy(config, data.shape, say, given)
        task = make_task(config, data, algorithm, given)

        def engine(states: Versions, codec: Codec, origin: Mapping[str, Any]) -> Engine:
            host = ClientHost(algorithm, task, task.streams, states, data.client, codec)
            return make_engine(config, host, data, say)

        clients = Clients(data, lambda: as_json(data), engine)
        origin = provenance(data, proxy, config.generator.start)
        with reporting_disk_errors(run.path):
            carry_out(config, run, observers, say, algorithm, task, clients, proxy, origin)
        return result_of(run, config, given)
    finally:
        run.release()


def check_device(device: str) -> None:
    if device != "cpu":
        # Asks the driver without starting CUDA here, which would keep workers from forking.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        if not torch.cuda.is_available():
            raise UserError(f"engine.device is {device!r} but PyTorch finds no CUDA here")


class Population(Protocol):
    """Who takes part, as far as the server must know."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def sizes(self) -> dict[int, int]: ...
    @property
    def test_sizes(self) -> Sequence[int]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def class_names(self) -> list[str]: ...


@dataclass(frozen=True)
class Clients:
    """The clients: who they are, what partition.json says of them, and how they are reached."""

    population: Population
    described: Callable[[], bytes]
    engine: Callable[[Versions, Codec, Mapping[str, Any]], Engine]
    states: type[Versions] = Versions


def carry_out(
    config: Config,
    run: RunFolder,
    observers: Sequence[Observer],
    say: Say,
    algorithm: Algorithm,
    task: Task,
    clients: Clients,
    proxy: torch.Tensor | None,
    origin: dict[str, Any],
) -> None:
    """All rounds of a run, or those that are left, and its files."""
    data = clients.population
    settings, sizes = config.federation, data.sizes
    active = active_clients(settings.fraction, len(sizes))
    if settings.min_clients > active:
        raise UserError(
            f"federation.min_clients is {settings.min_clients} but a round has {active} clients"
        )
    checkpoint = CheckpointFolder(run / "checkpoint")
    states = checkpoint.versions("clients", clients.states)
    saved = checkpoint.open()
    if saved is not None:
        began = run.provenance() or origin
        for key, what in (
            ("data_sha256", "data"),
            ("proxy_sha256", "proxy data"),
            ("generator_sha256", "generator in generator.start"),
        ):
            if began.get(key) != origin.get(key):
                raise UserError(f"the {what} is not the one that the run in {run.path} began with")
        origin = began
        start = saved.payloads["start"]["weights"]
        if shapes(start) != shapes(task.initial_weights):
            raise UserError(f"the model is not the one that the run in {run.path} began with")
        task.initial_weights = start
    else:
        write_atomically(run / "partition.json", clients.described())
        for text in untested(zip(data.names, data.test_sizes, strict=True)):
            say(text)
    run.repair_rounds(saved.record if saved else None)
    run.write_config(config, origin)
    (run / "summary.json").unlink(missing_ok=True)
    ledger = Ledger()
    ledger.up(Payload(sizes={"train": 0}), training=True, copies=len(sizes))
    codec = Codec(config.transport.downlink, config.transport.uplink)
    writer = Writer(run, settings.rounds)
    with recording_the_end(writer):
        engine = clients.engine(states, codec, origin)
        oldest = config.overall.max_staleness

        def make_memory(name: str, counts: Mapping[int, int]) -> Memory:
            versions = checkpoint.versions(f"slots-{name}")
            slots = SlotFiles(versions, lambda: str(server.round))
            if name != "overall" or oldest is None:
                return Memory(slots, counts)
            return FreshMemory(slots, counts, lambda: server.round, oldest)

        try:
            server = Server(
                task,
                sizes,
                task.streams,
                engine,
                states,
                ledger,
                make_memory,
                settings.min_clients,
                codec,
            )
            server.proxy = proxy
            schedule = Schedule(
                settings.rounds,
                settings.fraction,
                settings.evaluate_every,
                config.output.checkpoint_every,
                config.overall.scope,
                settings.evaluate_clients,
                config.overall.inactive,
            )
            federation = Federation(
                algorithm, server, engine, schedule, ledger, checkpoint, [writer, *observers]
            )
            if saved is not None:
                federation.restore(saved)
            readouts = federation.run()
        finally:
            engine.close()
            for observer in observers:
                observer.run_ended()
        finish(run, config, algorithm, readouts, ledger, card(config, data))
        writer.set_status("finished")


def make_engine(config: Config, host: ClientHost, data: FederatedData, say: Say) -> Engine:
    """Where the clients' work is done."""
    settings = config.engine
    workers = choose_workers(config, active_clients(config.federation.fraction, len(data.sizes)))
    if settings.name == "local":
        return LocalEngine(host, data, workers, settings.threads, say)
    from fedkf.flower.simulation import SimulationEngine

    return SimulationEngine(host, data, workers, config)


def shapes(weights: Weights) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in weights.items()}


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
    about: dict[str, Any],
) -> None:
    """Write the models, the ledger and, last of all, the summary."""
    from safetensors.torch import save

    (run / "models").mkdir(exist_ok=True)
    for name, weights in readouts.items():
        tensors = {
            key: tensor.detach().cpu().clone().contiguous() for key, tensor in weights.items()
        }
        write_atomically(run / "models" / f"{name}.safetensors", save(tensors))
    run.write_json("models/model.json", about)
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
        "readouts": {
            name: {k: score[k] for k in numbers} | judged(score) for name, score in last.items()
        },
        "best": best,
        "seconds": {key: round(sum(r["seconds"][key] for r in history), 3) for key in parts},
        "bytes": ledger.bytes(),
        "disclosed": ledger.disclosed(),
    }


def judged(score: Mapping[str, Any]) -> dict[str, int]:
    """Of how many clients the numbers are, where they are not of all."""
    return {"judged": len(score["clients"]), "of": score["of"]} if "of" in score else {}


def result_of(run: RunFolder, config: Config, given: Objects) -> Result:
    from safetensors.torch import load_file

    about = run.read_json("models/model.json")
    weights = {p.stem: load_file(p) for p in sorted((run / "models").glob("*.safetensors"))}
    make = model_factory(config, tuple(about["shape"]), len(about["class_names"]), given.model)
    return Result(
        run.path,
        run.rounds(),
        run.read_json("summary.json"),
        weights,
        make,
    )


@contextlib.contextmanager
def recording_the_end(writer: Writer) -> Iterator[None]:
    """Say in status.json how the run ended, if it did not end well."""
    try:
        yield
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        with contextlib.suppress(OSError):
            writer.set_status("stopped" if stopped else "failed", reason=str(error))
        raise


@contextlib.contextmanager
def reporting_disk_errors(folder: Path) -> Iterator[None]:
    """What the disk refuses, in a sentence; other errors pass as they are."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, folder) or error from error
