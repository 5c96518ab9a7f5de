"""The server: uploads that cannot be used are left out, whatever is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from conftest import Settings

import fedkf
from fedkf import algorithms
from fedkf.core.client import Call, Client, Reply
from fedkf.core.federation import Federation
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.records import Round
from fedkf.core.schedule import Schedule
from fedkf.core.server import Accept, Channel, Engine, Server, Storage
from fedkf.core.task import Task, Training
from fedkf.core.uploads import (
    Announced,
    counts_steps,
    fault,
    miscounted,
    missing,
    outlying,
)
from fedkf.core.versions import RemoteVersions
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import resolve
from fedkf.runs.setup import load_source, make_data, settle
from fedkf.secure.sums import secured

Change = Callable[[Payload], Payload]


def down() -> Payload:
    weights = {"w": torch.zeros(3)}
    return Payload(weights=weights).add("control", weights, "weights")


class Wire:
    """An engine whose clients send back what came, and whose client 1 changes it first."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.usable: dict[int, bool] = {}

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        for call in calls:
            upload = Payload.from_bytes(down.to_bytes())
            reply = Reply(call, self.change(upload) if call.client == 1 else upload)
            self.usable[call.client] = accept(reply)

    def evaluate(self, readouts: object, clients: object) -> None: ...

    def close(self) -> None: ...


def server(engine: Engine) -> Server:
    streams = Streams(0)
    task = Task(lambda: torch.nn.Linear(1, 1), (1,), 1, Training(), streams)
    sizes = {0: 5, 1: 5, 2: 5}
    made = Server(task, sizes, Channel(engine), Storage(RemoteVersions()))
    made.begin(1, sorted(sizes))
    return made


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda up: up.add("steps", {"count": 10**400}, "sizes"), "OverflowError"),
        (lambda up: up.replace(weights={"w": torch.ones(4)}), "'w' has shape [4], not [3]"),
        (lambda up: up.replace(control={"w": torch.ones(4)}), "'w' has shape [4], not [3]"),
        (lambda up: up.replace(control={"v": torch.ones(3)}), "control lack 'w'"),
    ],
)
def test_an_upload_that_does_not_fit_is_left_out(change: Change, reason: str) -> None:
    engine = Wire(change)
    served = server(engine)
    uploads = served.exchange("local_update", [0, 1, 2], down())
    assert [upload.client for upload in uploads] == [0, 2]
    assert [refusal.client for refusal in served.refused] == [1]
    assert reason in served.refused[0].reason
    assert engine.usable == {0: True, 1: False, 2: True}


@pytest.mark.parametrize(
    ("name", "group", "value"),
    [
        ("fednova", "steps", torch.tensor(3)),
        ("fedcm", "steps", torch.tensor(3)),
        ("afl", "local_loss", torch.tensor(0.5)),
        ("fedgen", "label_counts", 3),
        ("fedftg", "label_counts", 3),
    ],
)
def test_numbers_and_tensors_do_not_stand_for_each_other(
    name: str, group: str, value: torch.Tensor | int
) -> None:
    kind = "sizes" if group == "steps" else group
    entry = "value" if kind == "local_loss" else "count"
    upload = Payload(weights={"w": torch.zeros(3)}).add(group, {entry: value}, kind)
    asks = algorithms.get(name)()
    assert missing(upload, asks, "local_update") == f"it lacks {entry!r} of {group}"
    right = torch.tensor([3]) if isinstance(value, int) else 3
    assert missing(upload.add(group, {entry: right}, kind), asks, "local_update") == ""


def test_a_group_that_is_named_after_a_kind_is_of_it() -> None:
    upload = Payload(weights={"w": torch.zeros(3)}).add("local_loss", {"value": -9}, "weights")
    reason = missing(upload, algorithms.get("afl")(), "local_update")
    assert reason == "local_loss is of the kind 'weights', not 'local_loss'"


@pytest.mark.parametrize("name", ["fednova", "fedcm"])
@pytest.mark.parametrize(
    ("kind", "value"), [("weights", torch.tensor(3)), ("monitoring", 0), ("monitoring", math.nan)]
)
def test_a_group_by_another_name_is_of_the_kind_asked_for(
    name: str, kind: str, value: torch.Tensor | float
) -> None:
    upload = Payload(weights={"w": torch.zeros(3)}).add("steps", {"count": value}, kind)
    reason = missing(upload, algorithms.get(name)(), "local_update")
    assert reason == f"steps is of the kind {kind!r}, not 'sizes'"


@pytest.mark.parametrize(
    ("step", "group", "entry", "kind"),
    [
        ("secure_keys", "keys", "public", "public_keys"),
        ("secure_shares", "shares", "sealed", "sealed_shares"),
        ("secure_update", "masked", "vector", "masked_weights"),
        ("secure_unmask", "revealed", "shares", "mask_shares"),
    ],
)
def test_what_secure_sums_hide_in_is_of_its_kind(
    step: str, group: str, entry: str, kind: str
) -> None:
    asks = secured(algorithms.get("fedavg")(), share=0.6)
    upload = Payload().add(group, {entry: 3}, "sizes")
    assert missing(upload, asks, step) == f"{group} is of the kind 'sizes', not {kind!r}"
    upload = Payload().add(group, {entry: torch.tensor([3])}, kind)
    assert missing(upload, asks, step) == ""
    for extra in ("weights", "monitoring"):
        more = Payload.from_bytes(upload.to_bytes()).add(extra, {"w": 1e6})
        assert f"it holds {extra!r} ({extra})" in missing(more, asks, step)
    upload[group]["more"] = torch.zeros(9)
    assert missing(upload, asks, step) == f"{group} hold 'more', which fedavg does not ask for"


def test_a_group_that_the_step_does_not_declare_is_refused() -> None:
    asks = algorithms.get("fednova")()
    upload = Payload(weights={"w": torch.zeros(3)}, monitoring={"loss": 1.0})
    upload.add("steps", {"count": 3}, "sizes")
    assert missing(upload, asks, "local_update") == ""
    upload.add("extra", {"w": torch.zeros(3)}, "weights")
    reason = missing(upload, asks, "local_update")
    assert reason == "it holds 'extra' (weights), which fednova does not name in uploads"
    ccvr = algorithms.get("ccvr")()
    described = Payload(label_counts={"0": 3}, feature_statistics={}, weights={})
    assert "it holds 'weights'" in missing(described, ccvr, "describe")


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (2**40, "it took 1099511627776 steps, and its turn has 12"),
        (13, "it took 13 steps, and its turn has 12"),
        (1, "it took 1 steps, and its turn has 12"),
        (12, ""),
        (8, ""),  # a model with batch normalisation passes over single samples
    ],
)
def test_steps_are_those_of_a_turn(steps: int, reason: str) -> None:
    upload = Payload().add("steps", {"count": steps}, "sizes")
    assert fault(upload, Payload(), None, Announced(steps=(8, 12))) == reason


@pytest.mark.parametrize("counts", [[0, 0, 0], [2**40, 0, 0], [3, 3, 0], [4, 0, 0]])
def test_labels_are_of_as_many_samples_as_the_client_has(counts: list[int]) -> None:
    upload = Payload(label_counts={"count": torch.tensor(counts)})
    reason = fault(upload, Payload(), 3, Announced(size=5))
    assert reason == f"its label_counts are of {sum(counts)} samples, and it has 5"
    assert fault(upload, Payload(), 3, Announced(size=sum(counts))) == ""
    upload = Payload(label_counts={str(k): n for k, n in enumerate(counts)})
    assert "label_counts are of" in fault(upload, Payload(), 3, Announced(size=5))


def test_a_loss_far_above_all_others_of_its_round_is_refused() -> None:
    def upload(loss: float) -> Payload:
        return Payload(weights={"w": torch.zeros(3)}, local_loss={"value": loss})

    lies = {0: upload(0.01), 1: upload(1e9), 2: upload(30.0)}
    assert outlying(lies) == {
        1: "its local_loss is 1e+09, and up to 3e+07 is taken in this round",
    }
    large = {0: upload(3e12), 1: upload(8e14), 2: upload(2.0)}  # targets in millions
    assert outlying(large) == {}
    engine = Wire(lambda up: up.add("local_loss", {"value": 1e9}))
    served = server(engine)
    message = Payload(weights={"w": torch.zeros(3)}, local_loss={"value": 0.5})
    assert [u.client for u in served.exchange("local_update", [0, 1, 2], message)] == [0, 2]
    assert served.refused[0].client == 1


@pytest.mark.parametrize(
    "names",
    [["\ud800"], ["a\nb"], ["x" * 65], [f"loss {k}" for k in range(257)], ["\x1b[2J"]],
)
def test_losses_have_names_that_can_be_shown(names: list[str]) -> None:
    upload = Payload(monitoring=dict.fromkeys(names, 1.0))
    assert "monitoring has more names than 256, or such" in fault(upload, Payload())
    assert fault(Payload(monitoring={"loss": math.nan, "Verlust α": 1e300}), Payload()) == ""
    of_each_class = {f"class {k}": 1.0 for k in range(100)}
    assert fault(Payload(monitoring=of_each_class), Payload()) == ""


def test_losses_of_no_use_are_not_told() -> None:
    served = server(Wire(lambda upload: upload))
    federation = Federation(fedkf.FedAvg(), served, Schedule(1), NoCheckpoint())
    served.monitoring = {0: {"loss": 1.797e308, "kl": 1.0}, 1: {"kl": 2.0}}
    assert federation._losses() == {"kl": 1.5}
    served.monitoring = {0: {"loss": math.nan}, 1: {"loss": 2.0}}
    assert federation._losses() == {}


def test_who_judges_by_a_rule_of_its_own_says_on_which_samples() -> None:
    class Half(fedkf.FedAvg):
        def evaluate(self, client: Client, down: Payload) -> Payload:
            raise NotImplementedError

    def counted(upload: Payload) -> Payload:
        return Payload(monitoring={"tested": 2, "aca": 1})

    asked = Payload().add("aca", {"w": torch.zeros(3)}, "weights")
    for algorithm, heard in ((fedkf.FedAvg(), []), (Half(), [1])):  # only 1 counts
        served = server(Wire(counted))
        served.channel = Channel(served.channel.engine, algorithm)
        served.tests = dict.fromkeys(range(3), 4)
        assert [u.client for u in served.exchange("evaluate", [0, 1, 2], asked)] == heard


def test_steps_are_counted_for_those_who_ask_for_sizes() -> None:
    class Twice(fedkf.FedAvg):
        uploads = ("weights", "steps/count")

    assert counts_steps(algorithms.get("fednova")(), "local_update")
    assert not counts_steps(Twice(), "local_update")
    assert not counts_steps(fedkf.FedAvg(), "local_update")


def test_an_evaluation_holds_nothing_but_counts_and_what_was_asked_for() -> None:
    def counted(upload: Payload) -> Payload:
        return Payload(monitoring={"tested": 2, "aca": 1})

    class Counting(Wire):
        def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
            for call in calls:
                accept(Reply(call, self.change(counted(down)) if call.client else counted(down)))

    served = server(Counting(lambda up: up.add("weights", {"w": torch.full((3,), 1e6)})))
    served.channel = Channel(served.channel.engine, fedkf.FedAvg())
    asked = Payload().add("aca", {"w": torch.zeros(3)}, "weights")
    assert [u.client for u in served.exchange("evaluate", [0, 1, 2], asked)] == [0]
    assert [silent.client for silent in served.unjudged] == [1, 2]
    assert "holds 'weights'" in served.unjudged[0].reason
    assert served.refused == []  # that is for training
    served.tests = {0: 3}
    assert served.exchange("evaluate", [0, 1, 2], asked) == []


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (None, "it does not count 'aca'"),
        ({"tested": 5}, "it does not count 'aca'"),
        ({"aca": 5}, "it does not count 'tested'"),
        ({"tested": 5, "aca": math.nan}, "'aca' is nan"),
        ({"tested": 5, "aca": 6}, "'aca' is 6"),
        ({"tested": -5, "aca": -6}, "'tested' is -5"),
        ({"tested": 10**400, "aca": 6}, "no count of its test samples"),
    ],
)
def test_counts_that_cannot_be_are_left_out(
    counts: dict[str, int | float] | None, reason: str
) -> None:
    def judged(upload: Payload) -> Payload:
        return Payload() if counts is None else Payload(monitoring=counts)

    asked = Payload().add("aca", {"w": torch.zeros(3)}, "weights")
    assert reason in miscounted(judged(asked), asked)
    # The others send back weights, which are no counts either.
    assert server(Wire(judged)).exchange("evaluate", [0, 1, 2], asked) == []


def test_losses_without_a_mean_are_left_out_and_readouts_are_those_that_all_counted() -> None:
    class Reporting(Wire):
        def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
            for call in calls:
                own = {"personal": 1} if call.client else {}
                accept(Reply(call, Payload(monitoring={"tested": 2, "aca": 1, **own})))

    engine = Reporting(lambda upload: upload)
    served = server(engine)
    federation = Federation(fedkf.FedAvg(), served, Schedule(1), NoCheckpoint())
    counts = federation._count({"aca": {"w": torch.zeros(3)}})
    assert counts.correct == {"aca": [1, 1, 1]}
    served.monitoring = {
        0: {"loss": math.inf, "large": 10**400, "fine": 1.0},
        1: {"loss": -math.inf, "large": 1, "fine": 3.0},
    }
    assert federation._losses() == {"fine": 2.0}


class NoCheckpoint:
    def commit(self, payloads: object, ledger: object, sign: Callable[[], Round]) -> Round:
        return sign()


def test_a_server_holds_clients_to_the_test_samples_that_they_announced(
    settings: Settings,
) -> None:
    config = resolve(settings)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    assembly = Assembly.of(config, data)
    made = assembly.server(Wire(lambda upload: upload), Storage(RemoteVersions()))
    assert made.tests == dict(enumerate(data.test_sizes))


def test_features_of_classes_that_a_client_does_not_count_are_refused() -> None:
    ccvr = algorithms.get("ccvr")()
    counted = Payload(label_counts={"0": 3}, feature_statistics={"mean-1": torch.zeros(2)})
    served = server(Wire(lambda upload: upload))
    served.task.make_model = lambda: torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
    reason = ccvr.fault(served, "describe", counted)
    assert reason == "its statistics are of classes that it does not count"
