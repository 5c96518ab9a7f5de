"""The coordinator's side of the Flower app: the round loop over whoever is connected.

Whoever reaches the SuperLink's port may ask it to run an app. Started with `fedkf coordinator
start`, it runs no code but the installed package's, and only for jobs of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.records import Round
from fedkf.core.versions import RemoteVersions
from fedkf.data.source import Source
from fedkf.flower import internals, programs
from fedkf.flower.carrier import FlowerEngine
from fedkf.flower.coordinator import APP, VARIABLE, Coordinator, Job
from fedkf.flower.handshake import Introduction, Invitation, introductions
from fedkf.flower.settings import outgoing
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import refuse_changes
from fedkf.runs.experiment import Experiment, reporting_disk_errors
from fedkf.runs.provenance import provenance
from fedkf.runs.schema import Config
from fedkf.runs.setup import check_proxy, make_algorithm, named_proxy, prepare_proxy, settle
from fedkf.runs.store import RunFolder

HOUR = 3600.0
server = ServerApp()


@server.main()
def carry_out_job(grid: Grid, context: Context) -> None:
    """Carry out the job that the run's configuration names, and say how it ended."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        raise UserError("the SuperLink was not started with fedkf coordinator start")
    coordinator = Coordinator(Path(folder))
    job = coordinator.job(str(context.run_config["job"]))
    job.write(pid=os.getpid())
    try:
        os.chdir(job.cwd)
        os.umask(job.umask)
        execute(grid, coordinator, job)
        job.write(message="", exit=0)
    except BaseException as error:
        traceback.print_exc()
        text = str(error) if isinstance(error, FedkfError) else f"{type(error).__name__}: {error}"
        job.write(message=text, exit=getattr(error, "exit_code", 1))
        raise


@dataclass(frozen=True)
class Sites:
    """The sites of a run, as far as the coordinator knows them."""

    names: list[str]
    sizes: dict[int, int]
    test_sizes: list[int]
    shape: tuple[int, ...]
    class_names: list[str]

    @property
    def classes(self) -> int:
        return len(self.class_names)

    def described(self) -> bytes:
        """partition.json, with sizes only: the classes that a site holds are its own affair."""
        clients = [
            {"id": k, "name": name, "train": self.sizes[k], "test": self.test_sizes[k]}
            for k, name in enumerate(self.names)
        ]
        about = {"classes": self.classes, "class_names": self.class_names, "shape": self.shape}
        return (json.dumps({**about, "clients": clients}, indent=2) + "\n").encode()

    @classmethod
    def read(cls, run: RunFolder) -> Sites:
        about = run.read_json("partition.json")
        clients = about["clients"]
        return cls(
            [c["name"] for c in clients],
            {c["id"]: c["train"] for c in clients},
            [c["test"] for c in clients],
            tuple(about["shape"]),
            about["class_names"],
        )

    def settled(self, config: Config) -> Config:
        """The configuration with everything spelled out that depends on who takes part."""
        nobody = np.zeros(0, dtype=np.int64)
        inputs = np.zeros((0, *self.shape), dtype=np.float32)
        source = Source(inputs, nobody, self.class_names, nobody, self.names)
        data = config.data.model_copy(update={"partition": None})
        return settle(config.model_copy(update={"data": data}), source)

    def digest(self) -> str:
        return hashlib.sha256(self.described()).hexdigest()


def execute(grid: Grid, coordinator: Coordinator, job: Job) -> None:
    """The run of a job, begun or resumed."""
    config, say = job.config(), job.say
    run = RunFolder(job.out)
    with reporting_disk_errors(run.path):
        run.claim(job.resume)
    try:
        existing = run.config() if run.begun() else None
        name = secrets.token_hex(16)
        if existing is not None:
            if "experiment" not in run.provenance():
                raise UserError(f"{run.path} holds a run of fedkf run; choose another folder")
            name = str(run.provenance()["experiment"])
            sites = Sites.read(run)
            refuse_changes(existing, sites.settled(config))
            if run.finished() and len(run.rounds()) >= config.federation.rounds:
                failed_everywhere(run.rounds())
                return
        check_proxy(config, make_algorithm(config))
        if isinstance(config.data.proxy, float):
            raise UserError("data.proxy: a share of the sites' data cannot be had; name other data")
        nodes = coordinator.nodes
        if existing is None:
            sites = gather(grid, nodes(), config, name, job.wait, say)
        config = sites.settled(config)
        if missing := [name for name in sites.names if name not in nodes()]:
            say(f"not registered any more: {', '.join(missing)}")
        online = reachable(grid, nodes, sites.names)
        assemble(online, sites.names, job.wait, say)
        inputs = None if config.data.proxy is None else named_proxy(config, sites.shape, say)
        proxy = prepare_proxy(config, inputs, sites.shape)
        assembly = Assembly.of(config, sites, proxy=proxy)
        origin = {
            **provenance(None, proxy),
            "data_sha256": sites.digest(),
            "experiment": name,
        }
        experiment = Experiment(assembly, run, origin, [], say, RemoteVersions)
        with experiment.open(sites.described):
            engine = sites_engine(grid, online, experiment)
            experiment.finish(experiment.train(engine))
        failed_everywhere(run.rounds())
    finally:
        run.release()


def sites_engine(
    grid: Grid, online: Callable[[], Mapping[int, int]], experiment: Experiment
) -> FlowerEngine:
    """The engine whose clients are the connected sites."""
    config, states = experiment.assembly.config, experiment.states
    assert isinstance(states, RemoteVersions)
    steps = experiment.assembly.task.training.steps_per_epoch
    head = Invitation(outgoing(config, steps), str(experiment.origin["experiment"])).head()
    return FlowerEngine(
        grid,
        online,
        timeout=config.federation.round_timeout or HOUR,
        need=config.federation.min_clients,
        more=lambda call: {**head, "keep": states.keep(call.client)},
        pause=0.5,
    )


def failed_everywhere(rounds: list[Round]) -> None:
    """A run whose last round nobody judged has no result to show."""
    last = rounds[-1].readouts or {}
    if not any(score.clients for score in last.values()):
        raise FedkfError("no site answered the last evaluation; resume the run with more rounds")


def reachable(
    grid: Grid, nodes: Callable[[], Mapping[str, int]], names: list[str]
) -> Callable[[], dict[int, int]]:
    """Which node serves which client, of those that are connected now."""

    def now() -> dict[int, int]:
        registered, online = nodes(), set(grid.get_node_ids())
        return {
            k: registered[name]
            for k, name in enumerate(names)
            if name in registered and registered[name] in online
        }

    return now


def assemble(
    online: Callable[[], Mapping[int, int]],
    names: list[str],
    wait: float,
    say: Callable[[str], None],
) -> None:
    """Give the sites of a run time to connect, so that a resumed one goes on with all of them."""
    deadline = time.monotonic() + wait
    while len(there := online()) < len(names) and time.monotonic() < deadline:
        time.sleep(0.5)
    if missing := [name for k, name in enumerate(names) if k not in there]:
        say(f"not connected within {wait:g} s: {', '.join(missing)}")


def gather(
    grid: Grid,
    registered: Mapping[str, int],
    config: Config,
    experiment: str,
    wait: float,
    say: Callable[[str], None],
) -> Sites:
    """Ask every registered site for its sizes; those that agree to the run are its clients."""
    names = list(registered)
    if not names:
        raise UserError("no site is registered; fedkf coordinator add registers one")
    if config.data.class_names is None:
        raise UserError("data.class_names is missing: in a deployment the configuration names them")
    found: dict[str, Introduction] = {}
    by_node = {node: name for name, node in registered.items()}
    silent = set(names)
    invitation = Invitation(outgoing(config), experiment)
    for node, answer in introductions(grid, list(by_node), invitation, wait):
        name = by_node[node]
        silent.discard(name)
        if isinstance(answer, str):
            say(f"{name} does not take part: {answer}")
        else:
            found[name] = answer
            say(f"{name} takes part with {answer.train} training samples")
    if silent:
        say(f"not connected within {wait:g} s: {', '.join(sorted(silent))}")
    return agreed(found, [name for name in names if name in found], config, say)


def agreed(
    found: Mapping[str, Introduction],
    names: list[str],
    config: Config,
    say: Callable[[str], None],
) -> Sites:
    """The sites whose samples have the shape that most have."""
    shapes = [found[name].shape for name in names]
    shape = max(shapes, key=shapes.count, default=())
    for name in [n for n in names if found[n].shape != shape]:
        say(f"{name} does not take part: its samples have shape {list(found[name].shape)}")
    names = [name for name in names if found[name].shape == shape]
    if len(names) < config.federation.min_clients:
        raise FedkfError(
            f"{len(names)} sites take part and federation.min_clients is "
            f"{config.federation.min_clients}"
        )
    return Sites(
        names,
        {k: found[name].train for k, name in enumerate(names)},
        [found[name].test for name in names],
        shape,
        list(config.data.class_names or []),
    )


def main() -> None:
    """Run the coordinator's server, whatever app came with the request."""
    programs.end_with_parent()
    internals.run_server(APP)
