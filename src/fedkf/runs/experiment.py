"""Experiment: a run from its configuration to its last file."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedkf.core.allocator import keep_freed_memory
from fedkf.core.availability import Trace
from fedkf.core.digests import file_digest
from fedkf.core.errors import UserError, disk_error
from fedkf.core.federation import Federation, Observer
from fedkf.core.payload import Payload, Weights, write_atomically
from fedkf.core.schedule import active_clients
from fedkf.core.server import Engine
from fedkf.core.threads import threads
from fedkf.core.versions import Versions
from fedkf.data.describe import as_json, lacking, outsized, untested
from fedkf.data.federated import FederatedData
from fedkf.data.heterogeneity import measure
from fedkf.data.source import Say
from fedkf.runs.assembly import Assembly
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.config import flatten
from fedkf.runs.division import agreement
from fedkf.runs.engines import check_engine, make_engine
from fedkf.runs.groups import judge_groups
from fedkf.runs.judging import told_metrics
from fedkf.runs.keeping import Keeper
from fedkf.runs.personalize import data_of
from fedkf.runs.privacy import check_scale
from fedkf.runs.provenance import provenance, refuse_other_origin
from fedkf.runs.proxies import check_proxy, prepare_proxy
from fedkf.runs.result import Result, read_result, summarise
from fedkf.runs.resuming import refuse_changes, refuse_lost
from fedkf.runs.schema import Config
from fedkf.runs.secure import check_crowd
from fedkf.runs.setup import (
    Objects,
    load_samples,
    make_algorithm,
    make_data,
    make_holdout,
    settle,
)
from fedkf.runs.stopping import BUDGET, Patience, complete, ending
from fedkf.runs.storage import RunStorage
from fedkf.runs.store import RunFolder, Writer
from fedkf.runs.trackers import make_tracker
from fedkf.runs.trained import card, write_models


class Experiment:
    """A run in its folder: `open` it, `train` it with an engine, `finish` it.

    Whoever trains across sites gives `remote`: the clients' private states then lie with them.
    """

    def __init__(
        self,
        assembly: Assembly,
        run: RunFolder,
        origin: dict[str, Any],
        observers: Sequence[Observer] = (),
        say: Say = lambda text: None,
        remote: type[Versions] = Versions,
    ) -> None:
        self.assembly, self.run = assembly, run
        self.origin = {**origin, **traced(assembly), **told_metrics(assembly.config)}
        self.observers, self.say, self.remote = observers, say, remote is not Versions
        settings = assembly.config.federation
        self.writer = Writer(run, settings.rounds)
        self.checkpoint = CheckpointFolder(run / "checkpoint", remote)
        active = active_clients(settings.fraction, len(assembly.population.sizes))
        check_crowd(assembly.config, active)
        if settings.min_clients > active:
            raise UserError(
                f"federation.min_clients is {settings.min_clients} but a round has {active} clients"
            )

    @property
    def states(self) -> Versions:
        """The clients' private states."""
        return self.checkpoint.states

    @contextlib.contextmanager
    def open(self, partition: Callable[[], bytes]) -> Iterator[None]:
        """Begin the run, or take up what was saved of it; `partition` gives partition.json.

        Within, status.json says how the run ended, if it does not end well.
        """
        with reporting_disk_errors(self.run.path):
            self._begin(partition)
            try:
                yield
            except BaseException as error:
                stopped = isinstance(error, KeyboardInterrupt)
                with contextlib.suppress(OSError):
                    self.writer.set_status("stopped" if stopped else "failed", reason=str(error))
                raise

    def _begin(self, partition: Callable[[], bytes]) -> None:
        self.saved = self.checkpoint.read()
        if self.saved is not None:
            self.origin = refuse_other_origin(self.run, self.origin)
            start = self.saved.payloads["start"]["weights"]
            if shapes(start) != shapes(self.assembly.task.initial_weights):
                raise UserError(
                    f"the model is not the one that the run in {self.run.path} began with"
                )
            self.run.check_rounds(self.saved.record)
            self.assembly = self.assembly.starting_from(start)
        # Only now is it known that the run can go on: nothing was changed before.
        self.run.tidy()
        self.checkpoint.tidy()
        if self.saved is None:
            self.run.clear_rest()
            write_atomically(self.run / "partition.json", partition())
            people = self.assembly.population
            told = outsized(list(zip(people.names, people.sizes.values(), strict=True)))
            for text in untested(zip(people.names, people.test_sizes, strict=True)):
                self.say(text)
            for text in told if self.remote else ():  # sizes that nobody here can count
                self.say(text)
        self.run.repair_rounds(self.saved.record if self.saved else None)
        self.run.write_config(self.assembly.config, self.origin)
        (self.run / "summary.json").unlink(missing_ok=True)

    def train(self, engine: Engine) -> dict[str, Weights]:
        """All rounds that are left; the readouts after the last. The engine is closed."""
        storage = RunStorage(self.checkpoint, self.assembly.config.overall.max_staleness)
        server = self.assembly.server(engine, storage)
        ledger = self.ledger = server.channel.ledger
        ledger.up(Payload(sizes={"train": 0}), training=True, copies=len(server.sizes))
        if self.assembly.agreement is not None:
            self.assembly.agreement.count(ledger, len(server.sizes))
        config, past = self.assembly.config, self.run.rounds()
        about = card(config, self.assembly.population)
        write_models(self.run / "models", {}, about)  # so that checkpoints can be loaded
        patience = Patience(config.federation.patience, past)
        watching = [self.writer, *self.observers, patience]
        federation = self.assembly.federation(server, self.checkpoint, watching)
        federation.stopping = patience.exhausted  # by the rounds before a crash
        if config.output.keep:
            federation.keep = Keeper(self.run / "kept", config.output.keep, about, past)
        try:
            if self.saved is not None:
                federation.restore(self.saved)
            readouts = federation.run()
            self._account(federation)
            self.ended = ending(federation, patience)
            if self.ended == BUDGET:
                self.say(
                    f"every client has spent its privacy budget: the run ends after round "
                    f"{federation.done}"
                )
            assert federation.record is not None
            self.run.amend_last(federation.record)
            return readouts
        finally:
            engine.close()
            for observer in self.observers:
                observer.run_ended()

    def _account(self, federation: Federation) -> None:
        """What every client has spent goes into the ledger."""
        if federation.budget is None:
            return
        settings, clients = self.assembly.config.privacy, list(federation.server.sizes)
        spent = federation.budget.spent(clients)
        planned = {"epsilon": settings.epsilon, "delta": settings.delta, "turns": settings.turns}
        self.ledger.privacy = {"planned": planned, "spent": vars(spent)}
        self.say(
            f"privacy: no client has spent more than ε = {max(spent.epsilon):.3g} with δ = "
            f"{settings.delta:g}"
        )

    def finish(self, readouts: dict[str, Weights]) -> None:
        """Write the models, the ledger and, last of all, the summary."""
        assembly, run = self.assembly, self.run
        write_models(run / "models", readouts, card(assembly.config, assembly.population))
        run.write_json("ledger.json", self.ledger.summary())
        summary = summarise(run.rounds(), assembly.config, assembly.algorithm, self.ledger)
        summary = replace(summary, ended=self.ended)
        if isinstance(assembly.population, FederatedData) and assembly.judged:
            groups = judge_groups(assembly, assembly.population, readouts)
            summary = replace(summary, groups=groups)
        run.write_json("summary.json", summary.as_json())
        self.writer.set_status("finished")
        for observer in self.observers:
            observer.run_finished(run.path)


@threads(1)  # workers with several threads can be forked only if none ever computed here
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
    with reporting_disk_errors(run.path), run.claimed(resume):
        existing = run.config() if run.begun() else None
        if run.begun() and not existing:
            raise UserError(
                f"{run.path} holds a run without its config.yaml, so that nobody knows what it is; "
                "put the file back, or choose another folder"
            )
        if resume and not existing:
            say(f"nothing to resume in {run.path}: this is a new run")
        done = len(run.rounds())
        if existing and complete(run, config):
            refuse_changes(existing, config, done, settled=False)
            say("this run is already finished")
            whole = existing
            return read_result(run, whole, given, lambda: data_of(run, whole, say, given.source)[1])
        refuse_lost(run)
        check_engine(config)
        check_proxy(config, make_algorithm(config, given.algorithm))
        if config.output.log is not None:
            observers = [*observers, make_tracker(config.output.log, run.path, flatten(config))]
        samples = load_samples(config, say, given)
        asked, config = config, settle(config, samples.source)
        check_scale(asked, config)
        if existing:
            refuse_changes(existing, config, done)
        keep_freed_memory()
        data = make_data(config, samples.source)
        proxy = prepare_proxy(config, samples.proxy, data.shape)
        assembly = Assembly.of(config, data, given, proxy)
        held = make_holdout(config, samples.holdout)
        assembly = replace(assembly, agreement=agreement(asked, config), holdout=held)
        origin = provenance(data, proxy, config.generator.start)
        if held is not None:
            origin["holdout_sha256"] = held.digest()
            if not assembly.algorithm.shared_model:
                say(f"{config.algorithm.name} makes no shared model: nothing is held out to judge")
        if config.data.partition == "natural" and not existing:
            for text in lacking(data.names, data.class_counts(), data.class_names):
                say(text)
            if text := lonely(config):
                say(text)
        experiment = Experiment(assembly, run, origin, observers, say)
        with experiment.open(lambda: as_json(data, differences(config, data), held)):
            write_split(run / "split.npz", data)
            host = experiment.assembly.host_of(data, experiment.states)
            experiment.finish(experiment.train(make_engine(config, host, data, say)))
        return read_result(run, config, given, lambda: data)


def lonely(config: Config) -> str:
    """A sentence where a single site trains in a round, which leaves nothing to average."""
    fraction, sites = config.federation.fraction, config.data.clients
    if sites < 2 or active_clients(fraction, sites) > 1 or config.algorithm.name == "local":
        return ""
    return (
        f"only one of {sites} sites trains in a round (federation.fraction {fraction:g}), so that "
        "there is nothing to average; with few sites 1.0 lets all of them train"
    )


def differences(config: Config, data: FederatedData) -> dict[str, Any] | None:
    """How different clients are that nobody made so by labels alone; else labels say it all."""
    settings = config.data
    if len(data.names) < 2 or not (settings.partition == "natural" or settings.shift):
        return None
    return measure(data, settings.seed)


def write_split(path: Path, data: FederatedData) -> None:
    """Which samples of the source train and test at each client, so that others can do the same.

    A run that is resumed has written it; of one that began no round it is gone by now.
    """
    if data.places is None or path.exists():
        return
    train, test = data.places
    content = io.BytesIO()
    np.savez_compressed(
        content, train=train, train_offsets=data.offsets, test=test, test_offsets=data.test_offsets
    )
    write_atomically(path, content.getvalue())


def traced(assembly: Assembly) -> dict[str, str]:
    """The digest of a trace of availability, which must be one that can be used."""
    path = assembly.config.federation.availability
    if isinstance(assembly.schedule().availability, Trace):
        return {"trace_sha256": file_digest(str(path))}
    return {}


def shapes(weights: Weights) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in weights.items()}


@contextlib.contextmanager
def reporting_disk_errors(folder: Path) -> Iterator[None]:
    """What the disk refuses, in a sentence; other errors pass as they are."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, folder) or error from error
