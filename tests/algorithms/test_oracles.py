"""Every rule against its oracle, eight rounds, to 1e-10: who is active changes, sizes differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import oracle_clients
import oracle_servers
import pytest
from oracle import agree
from world import State, World, networks, quadratics

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
