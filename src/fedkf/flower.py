"""For people with a Flower app of their own: FedKF, and any algorithm here, as a strategy.

`FedKFStrategy` goes into a ServerApp (`strategy.start(grid, initial_arrays)`), `client_app` makes
the ClientApp. What the strategy is told, such as the learning rate, reaches the clients with every
message, so that there is one place to say it.
"""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

try:
    from flwr.app import (
        ArrayRecord,
        ConfigRecord,
        Context,
        Message,
        MessageType,
        MetricRecord,
        RecordDict,
    )
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Result, Strategy
except ImportError as error:  # pragma: no cover - told apart by the command line's test
    raise ImportError("fedkf.flower needs Flower: pip install 'fedkf[flower]'") from error

from fedkf import algorithms
from fedkf.api import full_key, plain
from fedkf.core.algorithm import Algorithm
from fedkf.core.client import Call, ClientHost, Reply
from fedkf.core.codec import Codec
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Federation, Observer, Record, Schedule
from fedkf.core.ledger import Ledger
from fedkf.core.memory import Memory
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Server
from fedkf.core.versions import Elsewhere, Versions
from fedkf.data.datasets import arrays_of
from fedkf.data.federated import FederatedData
from fedkf.engines.flower import FlowerEngine, greeting, make_reply, read_call
from fedkf.engines.local import Job, answer
from fedkf.runs.config import parse, resolve
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects, make_algorithm, make_task

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

__all__ = ["AlgorithmStrategy", "FedKFStrategy", "client_app"]

Factory = Callable[..., "nn.Module"]


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
        flat: dict[str, Any] = {"algorithm.name": algorithms.name_of(kind)}
        if not isinstance(algorithm, str):
            flat |= {f"algorithm.{key}": getattr(algorithm, key) for key in algorithm.given}
        for key, value in settings.items():
            if isinstance(value, Mapping):
                flat |= {f"{key}.{name}": plain(item) for name, item in value.items()}
            else:
                flat[full_key(key, kind)] = plain(value)
        flat["data.class_names"] = [str(k) for k in range(classes)]
        self.config = resolve({}, flat, kind)
        if kind.needs_proxy_data:
            raise UserError(f"{kind.name} needs unlabelled data on the server; use fedkf run")
        self.algorithm = make_algorithm(self.config)
        self.model, self.readout = model, readout
        self.readouts: dict[str, Weights] = {}
        """After `start`: the models "aca" and "oca"."""
        self.history: list[Record] = []
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
        nodes, sizes, shape = meet(grid, self.config, experiment, timeout)
        known = Met(sizes, shape, len(self.config.data.class_names or []))
        config = with_range(self.config, shape)
        task = make_task(config, known, self.algorithm, Objects(model=self.model))
        task.initial_weights = dict(initial_arrays.to_torch_state_dict())
        states, ledger, settings = Elsewhere(), Ledger(), config.federation
        head = {"config": told(config, task.training.steps_per_epoch), "experiment": experiment}

        def online() -> dict[int, int]:
            there = set(grid.get_node_ids())
            return {client: node for client, node in nodes.items() if node in there}

        engine = FlowerEngine(
            grid,
            online,
            timeout=timeout,
            need=settings.min_clients,
            more=lambda call: {**head, "keep": states.keep(call.client)},
            pause=0.5,
        )
        codec = Codec(config.transport.downlink, config.transport.uplink)
        server = Server(
            task,
            sizes,
            task.streams,
            engine,
            states,
            ledger,
            lambda name, counts: Memory({}, counts),
            settings.min_clients,
            codec,
        )
        schedule = Schedule(
            num_rounds,
            settings.fraction,
            settings.evaluate_every,
            scope=config.overall.scope,
            evaluate_clients=settings.evaluate_clients,
            inactive=config.overall.inactive,
        )
        result, self.history = Result(), []
        judge = Judge(self, states, result, evaluate_fn)
        if evaluate_fn and (score := evaluate_fn(0, initial_arrays)) is not None:
            result.evaluate_metrics_serverapp[0] = score
        federation = Federation(
            self.algorithm, server, engine, schedule, ledger, judge, observers=[judge]
        )
        self.readouts = federation.run()
        result.arrays = ArrayRecord(self.readouts[self.readout])
        return result

    def summary(self) -> None:
        """Nothing: the settings are in `config`."""

    # The rounds of some algorithms hold several exchanges, so `start` conducts them as a whole.

    def configure_train(self, *args: Any, **options: Any) -> Iterable[Message]:
        raise NotImplementedError("this strategy is used through start")

    def aggregate_train(self, *args: Any, **options: Any) -> tuple[None, None]:
        raise NotImplementedError("this strategy is used through start")

    def configure_evaluate(self, *args: Any, **options: Any) -> Iterable[Message]:
        raise NotImplementedError("this strategy is used through start")

    def aggregate_evaluate(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError("this strategy is used through start")


class FedKFStrategy(AlgorithmStrategy):
    """FedKF as a strategy: `FedKFStrategy(model=Net, classes=10, gamma=1.0, lr=0.05)`."""

    def __init__(self, *, model: Factory, classes: int, **settings: Any) -> None:
        super().__init__("fedkf", model=model, classes=classes, **settings)


@dataclass(frozen=True)
class Met:
    """What the clients said of their data."""

    sizes: dict[int, int]
    shape: tuple[int, ...]
    classes: int


class Judge(Observer):
    """Keeps what a round told, in Flower's words and in ours."""

    def __init__(
        self,
        strategy: AlgorithmStrategy,
        states: Versions,
        result: Result,
        function: Callable[[int, ArrayRecord], MetricRecord | None] | None,
    ) -> None:
        self.strategy, self.states, self.result, self.function = strategy, states, result, function

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Record]
    ) -> None:
        """In the place of a checkpoint: nothing outlives the ServerApp but the clients' states."""
        record = sign()
        self.states.committed()
        if self.function is not None:
            model = self.strategy.algorithm.model(payloads["state"])
            score = self.function(record["round"], ArrayRecord(model))
            if score is not None:
                self.result.evaluate_metrics_serverapp[record["round"]] = score

    def round_finished(self, record: Record) -> None:
        self.strategy.history.append(record)
        if record["losses"]:
            self.result.train_metrics_clientapp[record["round"]] = MetricRecord(record["losses"])
        flat = {
            f"{name}-{key}": score[key]
            for name, score in (record["readouts"] or {}).items()
            for key in ("amp", "fm", "wlp")
            if score[key] is not None
        }
        if flat:
            self.result.evaluate_metrics_clientapp[record["round"]] = MetricRecord(flat)


def meet(
    grid: Grid, config: Config, experiment: str, timeout: float
) -> tuple[dict[int, int], dict[int, int], tuple[int, ...]]:
    """Ask every node which client it is; client ids follow partition ids, not random node ids."""
    deadline, need = time.monotonic() + timeout, config.federation.min_clients
    before: set[int] = set()
    while (online := set(grid.get_node_ids())) != before or len(online) < max(1, need):
        if time.monotonic() > deadline:
            raise FedkfError(f"{len(online)} nodes are connected, and {max(1, need)} are needed")
        before = online
        time.sleep(0.5)
    head = {"config": told(config, None), "experiment": experiment}
    asked = [
        Message(RecordDict({"call": ConfigRecord(dict(head))}), node, MessageType.QUERY)
        for node in sorted(online)
    ]
    replies = list(grid.send_and_receive(asked, timeout=timeout))
    sent = {message.metadata.message_id: message.metadata.dst_node_id for message in asked}
    found: list[tuple[int, int, int, tuple[int, ...]]] = []
    for reply in replies:
        about, node = greeting(reply), sent.get(reply.metadata.reply_to_message_id)
        if node is not None and "error" not in about:
            partition = reply.content.config_records["reply"].get("partition", node)
            if isinstance(partition, int):
                found.append((partition, node, about["train"], about["shape"]))
    if len(found) < max(1, need):
        raise FedkfError(
            f"{len(found)} of {len(asked)} nodes answered, and {max(1, need)} are needed; "
            "their ClientApp is made by fedkf.flower.client_app"
        )
    found.sort()
    for (first, *_), (second, *_) in itertools.pairwise(found):
        if first == second:
            raise FedkfError(f"two nodes have the partition-id {first}; give each its own")
    if len({shape for *_, shape in found}) > 1:
        raise FedkfError("the clients' samples differ in shape")
    nodes = {k: node for k, (_, node, _, _) in enumerate(found)}
    return nodes, {k: train for k, (_, _, train, _) in enumerate(found)}, found[0][3]


def told(config: Config, steps: int | None) -> str:
    """The configuration as the clients get it; `equal` steps become their number."""
    content = config.model_dump(mode="json")
    if steps is not None:
        content["federation"]["steps"] = steps
    return json.dumps(content)


def with_range(config: Config, shape: tuple[int, ...]) -> Config:
    """How the clients normalise, which generated samples follow: images 0.5 and 0.5 if not told."""
    middle = ([0.5], [0.5]) if len(shape) == 3 else ([0.0], [1.0])
    mean, std = config.data.mean or middle[0], config.data.std or middle[1]
    data = config.data.model_copy(update={"mean": mean, "std": std})
    generator = config.generator
    if len(shape) != 3 and generator.name in ("dcgan", "released"):
        generator = generator.model_copy(update={"name": "mlp"})
    return config.model_copy(update={"data": data, "generator": generator})


# -- on a client -----------------------------------------------------------------------------------


def client_app(
    model: Factory,
    data: Callable[[Context], tuple[Dataset[Any], Dataset[Any] | None]],
    *,
    state: str | Path = "fedkf-state",
) -> ClientApp:
    """A ClientApp that takes part in a strategy of this module.

    `data` gives the client's training and test samples (tensors as the model takes them, labels
    from 0), the latter None if there are none. Private state, such as FedKF's generator, is kept
    in the folder `state`, which must outlive the process: Flower starts one for every message.
    """
    app = ClientApp()
    folder = Path(state).absolute()

    @app.query()
    def greet(message: Message, context: Context) -> Message:
        own = own_data(data, context, parse(json.loads(head_of(message)["config"])))
        about = ConfigRecord(
            {
                "partition": int(context.node_config.get("partition-id", context.node_id)),
                "train": own.sizes[0],
                "shape": list(own.shape),
            }
        )
        return Message(RecordDict({"reply": about}), reply_to=message)

    @app.train()
    @app.evaluate()
    def step(message: Message, context: Context) -> Message:
        call, down, head = read_call(message)
        config = parse(json.loads(head["config"]))
        own = own_data(data, context, config)
        header, payload = answer(
            Bench(model, own, config, folder / str(head["experiment"]), list(head["keep"])),
            {"do": "step", "call": call.__dict__},
            down,
        )
        header.pop("details", None)
        return make_reply(message, call, header, payload)

    return app


def head_of(message: Message) -> Mapping[str, Any]:
    return message.content.config_records["call"]


def own_data(
    data: Callable[[Context], tuple[Dataset[Any], Dataset[Any] | None]],
    context: Context,
    config: Config,
) -> FederatedData:
    """One client's samples as the rest of the package has them."""
    train, test = data(context)
    x, y, _ = arrays_of(train, "the training data")
    tx, ty = x[:0], y[:0]
    if test is not None:
        tx, ty, _ = arrays_of(test, "the test data")
    names = list(config.data.class_names or [])
    return FederatedData(
        torch.from_numpy(x).float(),
        torch.from_numpy(y).long(),
        np.array([0, len(y)]),
        torch.from_numpy(tx).float(),
        torch.from_numpy(ty).long(),
        np.array([0, len(ty)]),
        ["client"],
        names,
    )


class Bench:
    """Where one step is done: the user's model and data, the strategy's configuration."""

    def __init__(
        self, model: Factory, data: FederatedData, config: Config, folder: Path, keep: list[str]
    ) -> None:
        self.model, self.data, self.config = model, data, config
        self.folder, self.keep = folder, keep

    def step(self, job: Job, down: Payload) -> Reply:
        call, config = Call(**job["call"]), self.config
        torch.set_num_threads(config.engine.threads)
        states = Versions(self.folder)
        states.keep_only(call.client, self.keep)
        algorithm = make_algorithm(config)
        task = make_task(config, self.data, algorithm, Objects(model=self.model))
        own = self.data.to(task.device, task.layout).client(0)
        codec = Codec(config.transport.downlink, config.transport.uplink)
        host = ClientHost(algorithm, task, task.streams, states, lambda client: own, codec)
        return host.perform(call, down)

    def count(self, job: Job, down: Payload) -> Payload:
        raise NotImplementedError("clients count their own")
