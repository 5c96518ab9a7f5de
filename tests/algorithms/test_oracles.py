"""Every rule against its oracle, eight rounds, to 1e-10: who is active changes, sizes differ."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import oracle_clients
import oracle_servers
import pytest
from oracle import agree, run, same
from world import State, World, mean, networks, quadratics

from fedkf import algorithms

WORLDS: dict[str, World] = {
    "quadratics": quadratics(momentum=0.9, lr=0.03),
    "networks": networks(norm=True, momentum=0.6),
}

Oracle = Callable[..., Iterable[State]]
ON_SERVER: list[tuple[str, dict[str, Any], Oracle, dict[str, Any]]] = [
    ("fedavg", {}, oracle_servers.fedavg, {}),
    ("fednova", {}, oracle_servers.fednova, {}),
    (
        "fedavgm",
        {"beta": 0.6, "server_lr": 0.8},
        oracle_servers.server_optimizer,
        {"kind": "avgm", "lr": 0.8, "beta": 0.6},
    ),
    (
        "fedadam",
        {"beta": 0.7, "beta2": 0.9, "server_lr": 0.05, "tau": 0.01},
        oracle_servers.server_optimizer,
        {"kind": "adam", "lr": 0.05, "beta": 0.7, "beta2": 0.9, "tau": 0.01},
    ),
    (
        "fedyogi",
        {"beta": 0.7, "beta2": 0.9, "server_lr": 0.05, "tau": 0.01},
        oracle_servers.server_optimizer,
        {"kind": "yogi", "lr": 0.05, "beta": 0.7, "beta2": 0.9, "tau": 0.01},
    ),
    ("mifa", {"server_lr": 0.7}, oracle_servers.mifa, {"lr": 0.7}),
    ("qffl", {"q": 0.8}, oracle_servers.qffl, {"q": 0.8}),
    ("qffl", {"q": 2.0}, oracle_servers.qffl, {"q": 2.0}),
    *[
        (
            "afl",
            {"mixture_lr": 0.05, "ascent": ascent, "readout": readout},
            oracle_servers.afl,
            {"rate": 0.05, "ascent": ascent, "readout": readout},
        )
        for ascent in ("projected", "mirror")
        for readout in ("mean", "last")
    ],
    *[
        (
            "fedmgda",
            {"epsilon": epsilon, "server_lr": 0.9, "normalise": normalise},
            oracle_servers.fedmgda,
            {"epsilon": epsilon, "lr": 0.9, "normalise": normalise},
        )
        for epsilon in (0.1, 1.0)
        for normalise in (True, False)
    ],
    ("fedprox", {"mu": 0.4}, oracle_clients.fedprox, {"mu": 0.4}),
    ("scaffold", {"server_lr": 0.8}, oracle_clients.scaffold, {"lr": 0.8}),
    (
        "perfedavg",
        {"personal_lr": 0.2},
        oracle_clients.perfedavg,
        {"alpha": 0.2, "exact": False},
    ),
]


def told(case: tuple[str, dict[str, Any], Oracle, dict[str, Any]]) -> str:
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", ON_SERVER, ids=told)
def test_every_rounds_model_is_the_oracles(
    case: tuple[str, dict[str, Any], Oracle, dict[str, Any]], world: str
) -> None:
    name, options, oracle, same_options = case
    where = WORLDS[world]
    agree(where, algorithms.get(name)(**options), oracle(where, **same_options))


def test_oracles_import_nothing_of_the_package() -> None:
    for path in [*Path(__file__).parent.glob("oracle_*.py"), Path(__file__).with_name("world.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            names.append(getattr(node, "module", None) or "")
            assert not any(name.split(".")[0] == "fedkf" for name in names), path.name
            assert "oracle" not in names, path.name  # the harness, which does


def test_the_second_derivative_of_perfedavg_is_that_of_its_own_batch() -> None:
    """On quadratics two gradients give the product with the Hessian exactly, but for rounding."""
    world = quadratics(momentum=0.5)
    ours = algorithms.get("perfedavg")(personal_lr=0.3, variant="hessian-free", delta=0.01)
    agree(world, ours, oracle_clients.perfedavg(world, 0.3, exact=True))


@pytest.mark.parametrize("norm", [False, True])
def test_perfedavgs_personal_models_are_the_oracles(norm: bool) -> None:
    world = networks(norm=norm)
    trace = run(world, algorithms.get("perfedavg")(personal_lr=2.0))
    for t in range(1, world.rounds + 1):
        models = oracle_clients.personal_after_a_step(world, trace.models[t], t, 2.0)
        scores = trace.records[t]["readouts"]
        assert scores["personal"]["accuracy"] == oracle_clients.accuracies(world, models)
        assert scores["personal"]["accuracy"] != scores["aca"]["accuracy"]


@pytest.mark.parametrize("world", WORLDS)
def test_pfedmes_shared_and_personal_models_are_the_oracles(world: str) -> None:
    where = WORLDS[world].but(momentum=0.3)
    options = {"penalty": 4.0, "personal_steps": 3, "personal_lr": 0.05, "beta": 0.7}
    expected = list(oracle_clients.pfedme(where, 4.0, 3, 0.05, 0.7))
    trace = agree(where, algorithms.get("pfedme")(**options), [w for w, _ in expected])
    for t, (w, personal) in enumerate(expected, 1):
        assert trace.kept[t].keys() == personal.keys()
        for k, own in personal.items():
            same([trace.kept[t][k]["personal"]], [own])
        if where.classes > 1:
            models = [personal.get(k, w) for k in range(where.clients)]
            found = trace.records[t]["readouts"]["personal"]["accuracy"]
            assert found == oracle_clients.accuracies(where, models)


@pytest.mark.parametrize("world", WORLDS)
def test_alone_every_client_goes_on_from_its_own_model(world: str) -> None:
    where = WORLDS[world]
    expected = list(oracle_clients.alone(where))
    averages = [
        mean([where.sizes[k] for k in active], [own[k] for k in active])
        for active, own in zip(where.active, expected, strict=True)
    ]
    trace = agree(where, algorithms.get("local")(), averages)
    for t, own in enumerate(expected, 1):
        if where.classes > 1:
            found = trace.records[t]["readouts"]["oca"]["accuracy"]
            assert found == oracle_clients.accuracies(where, [own[k] for k in sorted(own)])


def test_metrics_are_those_of_the_clients_accuracies() -> None:
    """Test sets of unequal size: AMP weighs by it, FM and WLP count every client once."""
    world = networks()
    tests = [(x[: 5 * k + 8], y[: 5 * k + 8]) for k, (x, y) in enumerate(world.tests)]
    world = world.but(tests=tests)
    trace = run(world, algorithms.get("fedavg")())
    for t in range(1, world.rounds + 1):
        for readout, w in (("aca", trace.models[t]), ("oca", trace.overall[t])):
            assert w is not None
            accuracy = np.array(oracle_clients.accuracies(world, [w] * world.clients))
            sizes = np.array([len(y) for _, y in tests])
            scores = trace.records[t]["readouts"][readout]
            assert scores["amp"] == pytest.approx((sizes * accuracy).sum() / sizes.sum(), abs=1e-12)
            assert scores["fm"] == pytest.approx(
                ((accuracy - accuracy.mean()) ** 2).mean(), abs=1e-12
            )
            assert scores["wlp"] == pytest.approx(accuracy.min(), abs=1e-12)
