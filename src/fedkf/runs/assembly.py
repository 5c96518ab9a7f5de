"""Assembly: what a configuration describes, put together: the task, its clients and its server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from fedkf.core.client import ClientData, ClientHost
from fedkf.core.codec import Codec
from fedkf.core.defence import Defence
from fedkf.core.federation import Checkpoint, Federation, Observer
from fedkf.core.outsiders import Outsiders
from fedkf.core.privacy import Privacy
from fedkf.core.schedule import Schedule
from fedkf.core.server import Channel, Counts, Engine, Server, Storage
from fedkf.core.versions import Versions
from fedkf.engines.counting import count_in_groups
from fedkf.runs.judging import judgement_of
from fedkf.runs.privacy import make_accounts
from fedkf.runs.setup import Objects, make_algorithm, make_task
from fedkf.runs.traces import make_availability

if TYPE_CHECKING:
    import torch

    from fedkf.core.algorithm import Algorithm
    from fedkf.core.payload import Payload, Weights
    from fedkf.core.task import Task
    from fedkf.data.federated import FederatedData
    from fedkf.runs.division import Agreement
    from fedkf.runs.schema import Config


class Population(Protocol):
    """Who takes part, as far as a server must know."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def sizes(self) -> Mapping[int, int]: ...
    @property
    def test_sizes(self) -> Sequence[int]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def class_names(self) -> list[str]: ...


@dataclass(frozen=True)
class Assembly:
    """A settled configuration, who takes part, and what follows from both.

    Whatever trains or evaluates is made here: `host` on the side of the clients, `server` and
    `federation` on the other. An engine connects the two.
    """

    config: Config
    population: Population
    algorithm: Algorithm
    task: Task
    proxy: torch.Tensor | None = None
    agreement: Agreement | None = None
    """What was exchanged before the first round, if anything."""
    judged: bool = True
    """Clients may be asked how many test samples models classify correctly."""
    holdout: FederatedData | None = None
    """The samples of sites that take no part, if there are any here."""

    @classmethod
    def of(
        cls,
        config: Config,
        population: Population,
        given: Objects = Objects(),  # noqa: B008
        proxy: torch.Tensor | None = None,
    ) -> Assembly:
        """What a settled configuration describes; `given` objects stand in for what it names."""
        algorithm = make_algorithm(config, given.algorithm)
        task = make_task(config, population, algorithm, given)
        make_accounts(config, task, population.sizes)  # refuses a budget that nobody could keep
        return cls(config, population, algorithm, task, proxy)

    def starting_from(self, weights: Weights) -> Assembly:
        """The same with another w⁰ than the one that the seed gives."""
        return replace(self, task=replace(self.task, start=weights))

    def in_secret(self) -> Assembly:
        """The same where noise comes from entropy of this machine rather than from the seed."""
        parts = [
            replace(part, secret=True) if isinstance(part, Privacy) else part
            for part in self.task.parts
        ]
        return replace(self, task=replace(self.task, parts=parts))

    @property
    def codec(self) -> Codec:
        return Codec(self.config.transport.downlink, self.config.transport.uplink)

    def host(self, states: Versions, data: Callable[[int], ClientData]) -> ClientHost:
        """Runs the steps of the algorithm for clients with this data and these private states."""
        return ClientHost(self.algorithm, self.task, states, data, self.codec)

    def host_of(self, data: FederatedData, states: Versions) -> ClientHost:
        """The host for all clients of a division, whose samples lie on this machine."""
        return self.host(states, data.resident(self.task.device, self.task.layout))

    def only_host(self, data: FederatedData, states: Versions) -> ClientHost:
        """The host for a single client whose data this is, all of it, whatever the server's id.

        It is on a machine of its own, where secrets come from, too.
        """
        own = data.resident(self.task.device, self.task.layout)
        host = self.host(states, lambda client: own(0))
        if self.config.transport.secure:
            from fedkf.secure.sums import with_own_secrets

            host.algorithm = with_own_secrets(host.algorithm, states.folder)
        return host

    def server(self, engine: Engine, storage: Storage) -> Server:
        """The server of a new run."""
        settings = self.config.federation
        defence = Defence(settings.defence, settings.min_clients)
        channel = Channel(engine, self.algorithm, self.codec)
        made = Server(self.task, self.population.sizes, channel, storage, defence, self.proxy)
        made.tests = dict(enumerate(self.population.test_sizes))
        return made

    def federation(
        self, server: Server, checkpoint: Checkpoint, observers: Sequence[Observer] = ()
    ) -> Federation:
        """All rounds of the configuration, before the first."""
        accounts = make_accounts(self.config, self.task, self.population.sizes)
        made = Federation(self.algorithm, server, self.schedule(), checkpoint, observers, accounts)
        made.outsiders = self.outsiders(server.storage.states)
        return made

    def outsiders(self, states: Versions) -> Outsiders | None:
        """The sites that take no part, where the algorithm makes a model that could serve them."""
        data = self.holdout
        if data is None or not self.algorithm.shared_model:
            return None
        host, tested = self.host_of(data, states), data.test_sizes

        def count(readouts: Mapping[str, Weights]) -> Counts:
            def each(groups: Sequence[Sequence[int]], down: Payload) -> list[Payload]:
                return [host.count(group, down) for group in groups]

            return count_in_groups(each, readouts, range(len(tested)), tested)

        return Outsiders(data.names, count)

    def schedule(self) -> Schedule:
        """What the configuration says of rounds and who takes part in them."""
        settings, overall = self.config.federation, self.config.overall
        return Schedule(
            settings.rounds,
            settings.fraction,
            settings.evaluate_every,
            self.config.output.checkpoint_every,
            overall.scope,
            settings.evaluate_clients,
            overall.inactive,
            settings.oversample,
            make_availability(settings, len(self.population.sizes)),
            self.config.evaluation.personal != "none",
            self.judged,
            judgement_of(self.config),
        )
