"""T1's variants: means computed by hand, and identical bytes after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings, model_bytes
from torch import tensor

import fedkf
from fedkf.core.memory import Scope
from fedkf.core.overall import FreshMemory, with_global
from fedkf.core.payload import Payload, Weights

SIZES = {0: 1, 1: 2, 2: 3, 3: 4}
START: Weights = {"w": tensor([100.0]), "steps": tensor(0)}


def model(value: float, steps: int) -> Weights:
    return {"w": tensor([float(value)]), "steps": tensor(steps)}


def test_inactive_clients_stand_in_with_the_last_global_model() -> None:
    # (2·5 + 3·10 + (1 + 4)·8) / 10 = 8; whole numbers are those of the largest active client.
    mean = with_global({1: model(5, 11), 2: model(10, 22)}, SIZES, model(8, 99))
    assert mean["w"].item() == pytest.approx((2 * 5 + 3 * 10 + 5 * 8) / 10)
    assert mean["steps"].item() == 22


def test_when_everybody_is_active_nobody_stands_in() -> None:
    mean = with_global({k: model(k, k) for k in SIZES}, SIZES, model(1e9, 99))
    assert mean["w"].item() == pytest.approx((0 + 2 * 1 + 3 * 2 + 4 * 3) / 10)


@pytest.mark.parametrize("scope", ["seen", "all"])
def test_slots_that_are_too_old_count_as_empty(scope: Scope) -> None:
    round = 0
    slots: dict[int, Weights] = {}
    memory = FreshMemory(slots, SIZES, lambda: round, oldest=1)

    def shows(held: dict[int, float], steps: int) -> bool:
        found = memory.mean(scope, START)
        assert found is not None
        return found["w"].item() == pytest.approx(expected(held)) and int(found["steps"]) == steps

    def expected(held: dict[int, float]) -> float:
        total = sum(SIZES[k] * value for k, value in held.items())
        size = sum(SIZES[k] for k in held)
        if scope == "all":
            return (total + (10 - size) * 100) / 10
        return total / size

    round = 1
    memory.put(3, model(7, 33))
    assert shows({3: 7}, 33)
    round = 2
    memory.put(0, model(1, 10))
    assert shows({3: 7, 0: 1}, 33)  # a round old: it still counts
    round = 3
    memory.put(1, model(4, 11))
    assert shows({0: 1, 1: 4}, 11)  # two rounds old: it does not
    state = Payload.from_bytes(memory.state().to_bytes())
    memory = FreshMemory(slots, SIZES, lambda: round, oldest=1)
    memory.restore(state)
    assert shows({0: 1, 1: 4}, 11)
    round = 4
    memory.put(3, model(5, 34))  # it comes back
    memory.put(3, model(6, 35))
    assert shows({1: 4, 3: 6}, 35)


@pytest.mark.parametrize("scope", ["seen", "all"])
def test_the_last_slots_count_until_somebody_sends_again(scope: Scope) -> None:
    round = 1
    slots: dict[int, Weights] = {}
    memory = FreshMemory(slots, SIZES, lambda: round, oldest=0)
    memory.put(3, model(7, 33))
    last = memory.mean(scope, START)
    assert last is not None
    for round in (2, 3):  # nobody is there
        state = Payload.from_bytes(memory.state().to_bytes())
        memory = FreshMemory(slots, SIZES, lambda: round, oldest=0)  # noqa: B023
        memory.restore(state)
        assert memory.mean(scope, START) == last
    round = 4
    memory.put(1, model(4, 11))
    alone = FreshMemory({}, SIZES, lambda: round, oldest=0)
    alone.put(1, model(4, 11))
    assert memory.mean(scope, START) == alone.mean(scope, START)


@pytest.mark.filterwarnings("ignore:.*no client was available")
def test_a_last_round_without_anybody_leaves_the_mean_as_it_was(
    settings: Settings, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("1,0,1,2,3,4,5\n2,0,1,2,3,4,5\n3\n4\n")
    common: dict[str, Any] = {"algorithm": "fedavg", "overall": {"max_staleness": 0}}
    common["availability"] = str(trace)
    two = fedkf.run(settings, rounds=2, out=tmp_path / "a", **common).weights["oca"]
    for folder, resume in (("a", True), ("b", False)):
        out = tmp_path / folder
        four = fedkf.run(settings, rounds=4, out=out, resume=resume, **common)
        assert set(four.summary["readouts"]) == {"aca", "oca"}
        assert all(torch.equal(four.weights["oca"][name], two[name]) for name in two)


VARIANTS: list[dict[str, Any]] = [
    {"inactive": "global"},
    {"max_staleness": 0, "scope": "seen"},
    {"max_staleness": 1, "scope": "all"},
    {"max_staleness": 1, "scope": "seen"},
]


@pytest.mark.parametrize("overall", VARIANTS, ids=str)
def test_a_resumed_run_ends_with_the_same_bytes(
    settings: Settings, tmp_path: Path, overall: dict[str, Any]
) -> None:
    settings["generator"]["samples"] = "noise"
    for name, rounds in (("whole", [5]), ("parts", [2, 5])):
        for count in rounds:
            folder = tmp_path / name
            fedkf.run(
                settings, overall=overall, rounds=count, out=folder, resume=count != rounds[0]
            )
    assert model_bytes(tmp_path / "whole") == model_bytes(tmp_path / "parts")
    fedkf.run(settings, rounds=5, out=tmp_path / "plain")
    assert model_bytes(tmp_path / "whole") != model_bytes(tmp_path / "plain")


def test_the_models_of_a_run_are_those_means(settings: Settings, tmp_path: Path) -> None:
    """Two rounds of FedAvg: wᵗ⁻¹ is the ACA model of round 1."""
    one = fedkf.run(settings, algorithm="fedavg", rounds=1)
    two = fedkf.run(
        settings, algorithm="fedavg", rounds=2, overall={"inactive": "global"}, out=tmp_path
    )
    sizes = {c["id"]: c["train"] for c in two.partition["clients"]}
    active = sum(sizes[k] for k in two.history[1]["active"])
    share = active / sum(sizes.values())
    for name, before in one.weights["aca"].items():
        expected = share * two.weights["aca"][name] + (1 - share) * before
        assert torch.allclose(two.weights["oca"][name], expected, atol=1e-6)
    assert not (tmp_path / "checkpoint" / "slots-overall").exists()


def test_only_this_rounds_slots_are_the_active_clients(settings: Settings) -> None:
    result = fedkf.run(
        settings, algorithm="fedavg", overall={"max_staleness": 0, "scope": "seen"}, rounds=3
    )
    for name, tensor_ in result.weights["aca"].items():
        assert torch.allclose(result.weights["oca"][name], tensor_, atol=1e-6)


def test_variants_that_do_not_go_together_are_refused(settings: Settings) -> None:
    both = {"inactive": "global", "max_staleness": 2}
    with pytest.raises(fedkf.UserError, match="without max_staleness when inactive is global"):
        fedkf.run(settings, overall=both)
    with pytest.raises(fedkf.UserError, match=r"overall\.max_staleness is -1"):
        fedkf.run(settings, overall={"max_staleness": -1})
