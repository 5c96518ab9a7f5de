"""For people with a Flower app of their own: FedKF, and any algorithm here, as a strategy.

`FedKFStrategy` goes into a ServerApp (`strategy.start(grid, initial_arrays)`), `client_app` makes
the ClientApp. What the strategy is told, such as the learning rate, reaches the clients with every
message, so that there is one place to say it.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedkf import algorithms, models
from fedkf.api import chosen_keys, dotted
from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Observer
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Payload, Weights
from fedkf.core.records import Round
from fedkf.core.schedule import active_clients
from fedkf.core.server import Storage
from fedkf.core.versions import RemoteVersions, Versions
from fedkf.flower.carrier import RemoteEngine
from fedkf.flower.handshake import Introduction, Invitation, Members, connected, introductions
from fedkf.flower.participant import UNGUARDED, Factory
from fedkf.flower.settings import outgoing
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import resolve
from fedkf.runs.schema import Config
from fedkf.runs.secure import check_crowd, clients_needed
from fedkf.runs.setup import Objects, make_algorithm


class AlgorithmStrategy(Strategy):
    """Any algorithm of fedkf as a strategy of Flower.

    `model` builds the model, `classes` is the number of its outputs. Other settings are fedkf's
    own, such as `lr=0.05`, `local_epochs=1`, `fraction=0.5`, or `generator={"width": 16}`; an
    algorithm's hyperparameters are given with it (`fedkf.FedKF(gamma=1.0)`) or among them.
    """

    def __init__(
        self,
        algorithm: str | Algorithm,
        *,
        model: Factory,
        classes: int,
        readout: str = "oca",
        **settings: Any,
    ) -> None:
        kind = algorithms.get(algorithm) if isinstance(algorithm, str) else type(algorithm)
        flat = {**chosen_keys(algorithm), **dotted(settings, kind)}
        flat["data.class_names"] = [str(k) for k in range(classes)]
        flat["model.name"] = models.name_of(model)
        self.config = resolve({}, flat, kind)
        if kind.needs_proxy_data:
            raise UserError(f"{kind.name} needs unlabelled data on the server; use fedkf run")
        if self.config.privacy.on:
            raise UserError(UNGUARDED)
        outgoing(self.config)  # what clients cannot be told is refused here
        self.algorithm = make_algorithm(self.config)
        self.model, self.readout = model, readout
        self.readouts: dict[str, Weights] = {}
        """After `start`: the models "aca" and "oca"."""
        self.history: list[dict[str, Any]] = []
        """After `start`: every round as `rounds.jsonl` has it, with each client's accuracy."""

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train on whoever is connected; the arrays of the result are the readout's."""
        if train_config or evaluate_config:
            raise UserError("what clients are told is given to the strategy: lr=…, local_epochs=…")
        experiment = secrets.token_hex(16)
        clients = Participants.gather(grid, self.config, experiment, timeout)
        config = clients.settled(self.config)
        settings = config.federation.model_copy(update={"rounds": num_rounds})
        config = config.model_copy(update={"federation": settings})
        given = Objects(algorithm=self.algorithm, model=self.model)
        weights = dict(initial_arrays.to_torch_state_dict())
        assembly = Assembly.of(config, clients, given).starting_from(weights)
        sent = outgoing(config, assembly.task.training.steps_per_epoch)
        head = {**Invitation(sent, experiment).head(), "device": config.engine.device}

        def online() -> dict[int, int]:
            there = set(grid.get_node_ids())
            return {client: node for client, node in clients.nodes.items() if node in there}

        states = RemoteVersions()
        active = active_clients(settings.fraction, len(clients.sizes))
        check_crowd(config, active)
        need = clients_needed(config, active)
        engine = RemoteEngine(grid, online, head, states, timeout, need)
        result, self.history = Result(), []
        recorder = Recorder(self, states, result, evaluate_fn)
        if evaluate_fn and (score := evaluate_fn(0, initial_arrays)) is not None:
            result.evaluate_metrics_serverapp[0] = score
        server = assembly.server(engine, Storage(states))
        self.readouts = assembly.federation(server, recorder, [recorder]).run()
        result.arrays = ArrayRecord(self.readouts[self.readout])
        return result

    def summary(self) -> None:
        """Nothing: the settings are in `config`."""

    # The rounds of some algorithms hold several exchanges, so `start` conducts them as a whole.

    def _not_alone(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError("this strategy is used through start")

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _not_alone


class FedKFStrategy(AlgorithmStrategy):
    """FedKF as a strategy: `FedKFStrategy(model=Net, classes=10, gamma=1.0, lr=0.05)`."""

    def __init__(self, *, model: Factory, classes: int, **settings: Any) -> None:
        super().__init__("fedkf", model=model, classes=classes, **settings)


class Recorder(Observer):
    """Keeps the rounds, as Flower's result has them and as `rounds.jsonl` would."""

    def __init__(
        self,
        strategy: AlgorithmStrategy,
        states: Versions,
        result: Result,
        function: Callable[[int, ArrayRecord], MetricRecord | None] | None,
    ) -> None:
        self.strategy, self.states, self.result, self.function = strategy, states, result, function

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Round]
    ) -> Round:
        """In the place of a checkpoint: nothing outlives the ServerApp but the clients' states."""
        record = sign()
        self.states.committed()
        if self.function is not None:
            model = self.strategy.algorithm.model(payloads["state"])
            score = self.function(record.round, ArrayRecord(model))
            if score is not None:
                self.result.evaluate_metrics_serverapp[record.round] = score
        return record

    def round_finished(self, record: Round) -> None:
        self.strategy.history.append(record.as_json())
        if record.losses:
            losses = MetricRecord(dict(record.losses))
            self.result.train_metrics_clientapp[record.round] = losses
        flat: dict[str, Any] = {
            f"{name}-{key}": value
            for name, score in (record.readouts or {}).items()
            for key, value in score.values.items()
            if value is not None
        }
        if flat:
            self.result.evaluate_metrics_clientapp[record.round] = MetricRecord(flat)


@dataclass(frozen=True)
class Participants(Members):
    """The clients that answered; client ids follow partition ids, not random node ids."""

    nodes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def gather(cls, grid: Grid, config: Config, experiment: str, timeout: float) -> Participants:
        """Ask every node that is there who it is."""
        need = max(1, config.federation.min_clients)
        online = connected(grid, need, timeout)
        invitation = Invitation(outgoing(config), experiment)
        found: list[tuple[int, int, Introduction]] = []
        for node, about in introductions(grid, online, invitation, timeout, again=False):
            if isinstance(about, Introduction):
                found.append((node if about.partition is None else about.partition, node, about))
        if len(found) < need:
            raise FedkfError(
                f"{len(found)} of {len(online)} nodes answered, and {need} are needed; "
                "their ClientApp is made by fedkf.flower.client_app"
            )
        found.sort(key=lambda item: item[:2])
        for (first, *_), (second, *_) in itertools.pairwise(found):
            if first == second:
                raise FedkfError(f"two nodes have the partition-id {first}; give each its own")
        if len({about.shape for *_, about in found}) > 1:
            raise FedkfError("the clients' samples differ in shape")
        members = cls.of({f"client {k}": about for k, (*_, about) in enumerate(found)}, config)
        return replace(members, nodes={k: node for k, (_, node, _) in enumerate(found)})
