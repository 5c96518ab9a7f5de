"""The coordinator's side of the Flower app: the round loop over whoever is connected.

Whoever reaches the SuperLink's port may ask it to run an app. Started with `fedkf coordinator
start`, it runs no code but the installed package's, and only for jobs of its own.
"""

from __future__ import annotations

import os
import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid as FlowerGrid
from flwr.serverapp import ServerApp

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.records import Round
from fedkf.core.schedule import active_clients
from fedkf.core.versions import RemoteVersions
from fedkf.flower import internals, programs
from fedkf.flower.answers import check_sealable
from fedkf.flower.carrier import Grid, RemoteEngine
from fedkf.flower.coordinator import APP, VARIABLE, Coordinator
from fedkf.flower.grid import SignedGrid
from fedkf.flower.handshake import Invitation
from fedkf.flower.jobs import Request
from fedkf.flower.orders import Numbers
from fedkf.flower.scale import Asking, agree, as_begun
from fedkf.flower.settings import deployed, outgoing
from fedkf.flower.sites import Sites, gather
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import parse
from fedkf.runs.division import agreement
from fedkf.runs.experiment import Experiment, reporting_disk_errors
from fedkf.runs.provenance import provenance
from fedkf.runs.proxies import check_proxy, named_proxy, prepare_proxy
from fedkf.runs.resuming import refuse_changes, refuse_lost
from fedkf.runs.secure import clients_needed
from fedkf.runs.setup import make_algorithm
from fedkf.runs.stopping import complete
from fedkf.runs.store import RunFolder

HOUR = 3600.0
server = ServerApp()


@server.main()
def carry_out_job(grid: FlowerGrid, context: Context) -> None:
    """Carry out the job that the run's configuration names, and say how it ended."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        raise UserError("the SuperLink was not started with fedkf coordinator start")
    coordinator = Coordinator(Path(folder))
    job = coordinator.job(str(context.run_config["job"]))
    with job.begun():
        try:
            request = job.request()
            os.chdir(request.cwd)
            os.umask(request.umask)
            numbers = Numbers(coordinator / "orders")
            signed = SignedGrid(grid, coordinator.own_keys(), coordinator.site_keys, numbers)
            execute(signed, coordinator, request, job.say)
            job.write(message="", exit=0)
        except BaseException as error:
            traceback.print_exc()
            text = (
                str(error) if isinstance(error, FedkfError) else f"{type(error).__name__}: {error}"
            )
            job.write(message=text, exit=getattr(error, "exit_code", 1))
            raise


def execute(
    grid: Grid, coordinator: Coordinator, request: Request, say: Callable[[str], None]
) -> None:
    """The run that was asked for, begun or resumed."""
    asked, run = parse(request.config), RunFolder(request.out)
    with reporting_disk_errors(run.path), run.claimed(request.resume):
        existing = run.config() if run.begun() else None
        name = secrets.token_hex(16)
        config = deployed(asked)
        if existing is not None:
            if "experiment" not in run.provenance():
                raise UserError(f"{run.path} holds a run of fedkf run; choose another folder")
            name = str(run.provenance()["experiment"])
            sites = Sites.read(run)
            config = as_begun(asked, existing)
            refuse_changes(existing, sites.settled(config), len(run.rounds()))
            if complete(run, config):
                failed_everywhere(run.rounds())
                return
            refuse_lost(run)
        check_proxy(config, make_algorithm(config))
        if isinstance(config.data.proxy, float):
            raise UserError("data.proxy: a share of the sites' data cannot be had; name other data")
        nodes = coordinator.nodes
        if existing is None:
            sites = gather(grid, nodes(), config, name, request.wait, say)
            asking = Asking(grid, nodes(), name, request.wait, say)
            sites, config = agree(asking, sites, config)
        config = sites.settled(config)
        if missing := [name for name in sites.names if name not in nodes()]:
            say(f"not registered any more: {', '.join(missing)}")
        online = reachable(grid, nodes, sites.names)
        wait_for(online, sites.names, request.wait, say)
        inputs = None if config.data.proxy is None else named_proxy(config, sites.shape, say)
        proxy = prepare_proxy(config, inputs, sites.shape)
        assembly = Assembly.of(config, sites, proxy=proxy)
        check_sealable(assembly)
        assembly = replace(assembly, agreement=agreement(asked, config))
        if config.privacy.on:
            say("under privacy sites count no test samples for others: no accuracy is measured")
            assembly = replace(assembly, judged=False)
        origin = {**provenance(None, proxy), "data_sha256": sites.digest(), "experiment": name}
        experiment = Experiment(assembly, run, origin, [], say, RemoteVersions)
        with experiment.open(sites.described):
            engine = engine_of(experiment, grid, online)
            experiment.finish(experiment.train(engine))
        failed_everywhere(run.rounds())


def engine_of(
    experiment: Experiment, grid: Grid, online: Callable[[], Mapping[int, int]]
) -> RemoteEngine:
    """The engine whose clients are the connected sites."""
    assembly, states = experiment.assembly, experiment.states
    assert isinstance(states, RemoteVersions)
    sent = outgoing(assembly.config, assembly.task.training.steps_per_epoch)
    head = Invitation(sent, str(experiment.origin["experiment"])).head()
    settings = assembly.config.federation
    timeout = settings.round_timeout or HOUR
    active = active_clients(settings.fraction, len(assembly.population.sizes))
    need = clients_needed(assembly.config, active)
    return RemoteEngine(grid, online, head, states, timeout, need)


def failed_everywhere(rounds: list[Round]) -> None:
    """A run whose last round nobody judged has no result to show."""
    last = rounds[-1].readouts
    if last is None:
        return  # nobody was asked to
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


def wait_for(
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


def main() -> None:
    """Run the coordinator's server, whatever app came with the request."""
    programs.end_with_parent()
    internals.run_server(APP)
