"""Ditto: its oracle, its fixed point, and that its shared model is FedAvg's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from helpers import linear, sites
from oracle import agree, same
from quadratics import Quadratics
from torch import nn, tensor
from world import State, World, mean, networks, quadratics

import fedkf
from fedkf.algorithms.ditto import Ditto
from fedkf.paper.operations import measure

OWN = "batches of the personal model"


def ditto(world: World, penalty: float) -> Iterator[tuple[State, dict[int, State]]]:
    """The shared model, and the personal ones of the clients seen so far."""
    w, own = world.w0, dict.fromkeys(range(world.clients), world.w0)
    seen: set[int] = set()
    for t, active in enumerate(world.active, 1):

        def held(model: nn.Module, w: State = w) -> list[torch.Tensor]:
            return [penalty * (p.detach() - w[n]) for n, p in model.named_parameters()]

        own |= {k: world.train(own[k], world.batches(t, k, OWN), add=held) for k in active}
        local = [world.train(w, world.batches(t, k)) for k in active]
        w, seen = mean([world.sizes[k] for k in active], local), seen | set(active)
        yield w, {k: own[k] for k in sorted(seen)}


@pytest.mark.parametrize(
    "world",
    [quadratics(), quadratics(momentum=0.5, weight_decay=0.05), networks(norm=True)],
)
@pytest.mark.parametrize("penalty", [1.0, 0.2])
def test_it_is_its_oracle(world: World, penalty: float) -> None:
    expected = list(ditto(world, penalty))
    trace = agree(world, Ditto(penalty=penalty), [shared for shared, _ in expected])
    for kept, (_, own) in zip(trace.kept[1:], expected, strict=True):
        assert list(kept) == list(own)
        same([kept[k]["personal"] for k in kept], own.values())


def test_accuracies_are_those_of_the_personal_models() -> None:
    world = networks(lr=0.5)
    trace = agree(world, Ditto(penalty=0.1), [shared for shared, _ in ditto(world, 0.1)])
    shared, own = list(ditto(world, 0.1))[-1]
    found = trace.records[-1]["readouts"]["personal"]["accuracy"]
    for k, (x, y) in enumerate(world.tests):
        model = world.model(own.get(k, shared)).eval()
        assert found[k] == pytest.approx(float((model(x).argmax(1) == y).double().mean()))
    assert found != trace.records[-1]["readouts"]["aca"]["accuracy"]


def test_a_personal_model_ends_between_its_clients_optimum_and_the_shared_one(
    tmp_path: Path,
) -> None:
    """v_k minimises ½ (v − c_k)² + λ/2 (v − w)²: v_k = (c_k + λ w) / (1 + λ)."""
    federation = Quadratics([torch.eye(1)] * 2, [tensor([-1.0]), tensor([5.0])])
    w = federation.run(Ditto(penalty=3.0), tmp_path, 40, lr=0.4)
    assert w.item() == pytest.approx(2.0, abs=1e-6)
    assert federation.kept(0, "personal").item() == pytest.approx((-1 + 3 * 2) / 4, abs=1e-6)
    assert federation.kept(1, "personal").item() == pytest.approx((5 + 3 * 2) / 4, abs=1e-6)


@pytest.mark.parametrize("model", [None, Normed])
def test_its_shared_model_is_fedavgs_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "ditto", model, penalty=0.5)


def test_whoever_has_not_been_active_is_judged_by_the_shared_model() -> None:
    result = fedkf.run(
        model=linear, clients=sites(), algorithm=Ditto(), fraction=0.5, rounds=2, workers=0
    )
    first = result.history[0]
    scores = first["readouts"]
    assert list(scores) == ["aca", "oca", "personal"]
    for k in set(range(4)) - set(first["active"]):
        assert scores["personal"]["accuracy"][k] == scores["aca"]["accuracy"][k]


def test_it_costs_twice_fedavgs_passes_and_sends_nothing_more() -> None:
    row = measure(Ditto())
    assert list(row["passes"].values()) == [2, 2, 0, 0]
    assert (row["bytes_down"], row["bytes_up"], row["discloses"]) == (1, 1, ["weights"])
