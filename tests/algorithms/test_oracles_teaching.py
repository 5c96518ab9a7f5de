"""Rules in which models teach, against their oracles: tiny networks, eight rounds, to 1e-10."""

from __future__ import annotations

from typing import Any

import oracle_fedkf
import oracle_teachers
import pytest
import torch
from oracle import agree, run, same
from oracle_servers import fedavg
from world import networks

import fedkf
from fedkf import algorithms
from fedkf.core.samples import Sampling
from fedkf.distillation.generators import Generation, TrainedGenerator

WORLD = networks(momentum=0.4)
NORMED = networks(norm=True)
GENERATION = {
    "parts": [
        Sampling(TrainedGenerator),
        Generation(oracle_fedkf.Generator, noise=oracle_fedkf.NOISE, lr=oracle_fedkf.BETA),
    ]
}


@pytest.mark.parametrize("world", [WORLD, NORMED], ids=["plain", "batch norm"])
@pytest.mark.parametrize("wait", [False, True], ids=["text", "released"])
@pytest.mark.parametrize("vote", [False, True], ids=["mean", "vote"])
def test_fedgkd(vote: bool, wait: bool, world: Any) -> None:
    ours = algorithms.get("fedgkd")(
        gamma=1.5,
        buffer=5 if wait else 3,
        teacher="vote" if vote else "mean",
        wait=wait,
        vote_temperature=0.3,
    )
    buffer = 5 if wait else 3
    trace = agree(world, ours, oracle_teachers.fedgkd(world, 1.5, buffer, vote, wait, 0.3))
    distilled = ["kl" in record["losses"] for record in trace.records[1:]]
    assert distilled == ([False] * 5 + [True] * 3 if wait else [True] * 8)


@pytest.mark.parametrize("world", [WORLD, NORMED], ids=["plain", "batch norm"])
@pytest.mark.parametrize("head", [0, 3])
def test_moon(head: int, world: Any) -> None:
    ours = algorithms.get("moon")(mu=2.0, temperature=0.4, head=head)
    agree(world, ours, oracle_teachers.moon(world, 2.0, 0.4, head))


@pytest.mark.parametrize("norm", [False, True])
def test_feddf(norm: bool) -> None:
    random = torch.Generator().manual_seed(9)
    proxy = torch.randn(20, 4, generator=random, dtype=torch.float64)
    world = networks(norm=norm, more={"proxy": proxy})
    ours = algorithms.get("feddf")(server_steps=7, server_batch=6, server_lr=0.02)
    agree(world, ours, oracle_teachers.feddf(world, 7, 6, 0.02))


@pytest.mark.parametrize("world", [WORLD, NORMED], ids=["plain", "batch norm"])
def test_ccvr(world: Any) -> None:
    ours = algorithms.get("ccvr")(
        virtual=9, epochs=3, server_batch=4, server_lr=0.05, server_momentum=0.6
    )
    trace = agree(world, ours, fedavg(world))
    expected = oracle_teachers.ccvr(world, trace.models[-1], 9, 3, 4, 0.05, 0.6)
    same([trace.final["aca"]], [expected])
    assert not torch.allclose(trace.final["aca"]["outer.weight"], trace.models[-1]["outer.weight"])
    overall = trace.overall[-1]
    assert overall is not None
    same([trace.final["oca"]], [overall], 0.0)


@pytest.mark.parametrize("world", [WORLD, NORMED], ids=["plain", "batch norm"])
@pytest.mark.parametrize("ensemble", ["labels", "sizes", "logits", "sized-logits"])
def test_fedgen(ensemble: str, world: Any) -> None:
    """`sized-logits` with all that goes with it is the released variant."""
    world = world.but(lr=0.05)  # the generator's Adam makes more of rounding than SGD does
    released = ensemble == "sized-logits"
    fidelity = algorithms.get("fedgen").fidelity["released" if released else "text"]
    small = {"hidden": 6, "latent": 2, "server_steps": 4, "server_batch": 8, "server_lr": 0.001}
    options = {**fidelity, **small, "ensemble": ensemble, "weight": 0.8, "diversity": 0.6}
    oracle = oracle_teachers.fedgen(world, ensemble, released, released, 0.8, 0.6)
    agree(world, algorithms.get("fedgen")(**options), oracle)


FEDKF: dict[str, dict[str, Any]] = {
    "text": {},
    "text, all slots": {"scope": "all"},
    "text, taught by ACA": {"oca": False},
    "released": {"released": True},
    "released, taught by ACA": {"released": True, "oca": False},
    "adversarial": {"released": True, "adversarial": True},
    "text, on the server": {"server_steps": 3},
    "released, on the server": {"server_steps": 3, "released": True},
    "on the server, taught by ACA": {"server_steps": 2, "oca": False},
}


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch norm"])
@pytest.mark.parametrize("variant", FEDKF)
def test_fedkf(variant: str, norm: bool) -> None:
    rules = oracle_fedkf.Rules(**FEDKF[variant])
    world = networks(norm=norm, momentum=0.3, more=GENERATION)
    name = "fedkf-server" if rules.server_steps else "fedkf" if rules.oca else "fedkf-"
    kind = algorithms.get(name)
    options: dict[str, Any] = {
        **kind.fidelity["released" if rules.released else "text"],
        "gamma": rules.gamma,
        "lambda1": rules.lambda1,
        "lambda2": rules.lambda2,
        "adversarial": rules.adversarial,
    }
    if rules.server_steps:
        options |= {"generator_steps": rules.server_steps, "teacher": "oca" if rules.oca else "aca"}
    oracle = oracle_fedkf.Run(world, rules)
    trace = agree(world, kind(**options), oracle.models(), scope=rules.scope)
    same(trace.overall[1:], oracle.overall)
    for k, (made, _) in oracle.generators.items():
        ours = trace.states[-1] if rules.server_steps else trace.kept[-1][k]
        same([ours["generator"]], [dict(made.state_dict())])


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch norm"])
def test_fedkf_plus(norm: bool) -> None:
    rules = oracle_fedkf.Rules(released=True)
    few = ((0, 2), (1,), (3, 5), (0, 1, 4), (2,), (5,), (1, 3), (4,))  # none, some or all the drive
    world = networks(norm=norm, momentum=0.3, more=GENERATION, active=few)
    ours = algorithms.get("fedkf+")(
        gamma=rules.gamma,
        lambda1=rules.lambda1,
        lambda2=rules.lambda2,
        beta=0.6,
        scarcity=3.0,
        pool=10,
        warped=0.0,
        generator_every=2,
        haste=5.0,
        drive=0.7,
    )
    oracle = oracle_fedkf.PlusRun(world, rules, beta=0.6, pool=10)
    trace = agree(world, ours, oracle.models())
    same(trace.overall[1:], oracle.overall)
    for k, (made, _) in oracle.generators.items():
        same([trace.kept[-1][k]["generator"]], [dict(made.state_dict())])


def test_distillation_changes_what_a_client_learns() -> None:
    """So that the oracles above are not all FedAvg."""
    world = networks(more=GENERATION)
    plain, ours = run(world, fedkf.FedAvg()), run(world, fedkf.FedKF())
    assert (plain.models[1]["inner.weight"] - ours.models[1]["inner.weight"]).abs().max() > 1e-4
