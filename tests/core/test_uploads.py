"""The server: uploads that cannot be used are left out, whatever is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

import fedkf
from fedkf import algorithms
from fedkf.core.client import Call, Reply
from fedkf.core.federation import Federation
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.core.records import Round
from fedkf.core.schedule import Schedule
from fedkf.core.server import Accept, Channel, Engine, Server, Storage
from fedkf.core.tally import empty
from fedkf.core.task import Task, Training
from fedkf.core.uploads import miscounted, missing, mistallied
from fedkf.core.versions import RemoteVersions
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"aca/confusion": None}, "it lacks the statistic 'aca/confusion'"),
        ({"aca/faces": torch.zeros(3)}, "it holds 'aca/faces', which nobody asked for"),
        ({"aca/confusion": torch.ones(3, 3)}, "'aca/confusion' is torch.float32 of shape [3, 3]"),
        ({"aca/confusion": torch.ones(1, 9).int()}, "of shape [1, 9]"),
        ({"aca/confusion": torch.ones(3, 3).int()}, "is no statistic of its 2 test samples"),
        ({"aca/scores": empty("scores", 3)}, "'aca/scores' is no statistic of its 2 test samples"),
    ],
)
def test_statistics_must_be_those_that_were_asked_for_and_of_all_test_samples(
    change: dict[str, torch.Tensor | None], reason: str
) -> None:
    confusion, scores = empty("confusion", 3), empty("scores", 3)
    confusion[0, 1] += 2
    scores[:, 0, 7] += 2
    found = {"aca/confusion": confusion, "aca/scores": scores, **change}
    upload = Payload(monitoring={"tested": 2, "aca": 0})
    upload.add("test_statistics", {k: t for k, t in found.items() if t is not None})
    said = mistallied(upload, ("confusion", "scores"), 3)
    assert reason in said
    assert bool(reason) == bool(said)


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
