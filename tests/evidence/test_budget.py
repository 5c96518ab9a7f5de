"""What accuracy costs, on records made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evidence import budget, paper, worlds
from evidence.reading import Evidence, Setting
from evidence.worlds import World

from fedkf.paper.published import Case
from fedkf.runs.config import read, resolve
from fedkf.runs.store import RunFolder


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """FedAvg and FedKF at α = 0.1, ten rounds each; FedKF's take three times as long and send twice
    as much, and its AMP goes up by 5 points a round, FedAvg's by 4."""
    folder = tmp_path / "results" / "letters"
    for name, step, sent in (("fedavg", 0.04, 1_000_000), ("fedkf", 0.05, 2_000_000)):
        path = folder / f"alpha=0.1,{name},seed=0"
        path.mkdir(parents=True)
        overrides: dict[str, Any] = {"algorithm.name": name, "data.alpha": 0.1}
        overrides |= {"federation.rounds": 10, "engine.workers": 0}
        RunFolder(path).write_config(resolve(read("digits")[0], overrides), {"data_sha256": "d"})
        lines = []
        for k in range(1, 11):
            score = {"amp": k * step, "fm": 0.0, "wlp": 0.0, "clients": [0], "accuracy": [k * step]}
            readouts = {"aca": score, "oca": score} if k != 5 else None  # a round without a test
            about = {"round": k, "active": [0], "bytes": {"down": sent, "up": 0}}
            lines.append(json.dumps({**about, "readouts": readouts}))
        (path / "rounds.jsonl").write_text("".join(line + "\n" for line in lines))
        summary = {"algorithm": name, "seed": 0, "rounds": 10, "readouts": readouts}
        summary |= {"seconds": {"total": 1.0}, "bytes": {"down": 10 * sent, "up": 0}}
        (path / "summary.json").write_text(json.dumps(summary))
    pace = {
        "load": 0.1,
        "workers": 2,
        "seconds": [["letters", "fedavg", 1.0], ["letters", "fedkf", 3.0]],
    }
    (folder / "pace.json").write_text(json.dumps(pace))
    return Evidence(tmp_path / "results", tmp_path / "suites")


@pytest.fixture
def cost(evidence: Evidence) -> budget.Cost:
    settings = evidence.settings("letters")
    fedavg, fedkf = (next(s for s in settings if s.algorithm == n) for n in ("fedavg", "fedkf"))
    return budget.Cost(World("letters", "α = 0.1", settings), fedkf, fedavg, 3.0)


def test_methods_are_held_against_fedavg_in_its_time_and_with_its_bytes(cost: budget.Cost) -> None:
    assert cost.bytes == 2
    in_time, in_bytes, sooner = cost.in_time(), cost.in_bytes(), cost.sooner()
    assert in_time is not None
    assert in_bytes is not None
    assert sooner is not None
    assert in_time.mean == pytest.approx(3 * 0.05 - 0.4)  # three rounds in FedAvg's ten
    assert in_bytes.mean == pytest.approx(4 * 0.05 - 0.4)  # the fifth round was not tested
    assert sooner.mean == pytest.approx((8 * 3 - 10) / 10)  # at 40 % after eight rounds
    assert budget.when(cost) == "+140"
    row = budget.counted([cost], "time")
    assert row.endswith("FedKF is ahead on 0 of 1 and behind on 0")  # one seed shows nothing


def test_a_rounds_time_is_that_of_its_kind_of_data(evidence: Evidence, cost: budget.Cost) -> None:
    assert worlds.round_cost(evidence, cost.world, "fedkf") == 3
    untimed = replace(cost, time=None)
    assert untimed.in_time() is untimed.sooner() is None
    assert untimed.in_bytes() == cost.in_bytes()
    assert budget.when(untimed) == "–"


def test_who_does_not_come_to_fedavgs_accuracy_has_no_time_to_it(cost: budget.Cost) -> None:
    shorten(cost.own, 7)
    assert cost.sooner() is None
    assert budget.when(cost) == "not with every seed"


def test_where_fedavg_is_there_at_once_nobody_is_sooner(cost: budget.Cost) -> None:
    (run,) = cost.base.runs
    lines = [json.loads(line) for line in (run.path / "rounds.jsonl").read_text().splitlines()]
    lines[0]["readouts"] = lines[-1]["readouts"]
    lines += [{**lines[-1], "round": k} for k in range(11, 21)]  # one round of twenty
    (run.path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not cost.telling
    assert cost.sooner() is None
    assert budget.when(cost) == "–"


def shorten(one: Setting, rounds: int) -> None:
    for run in one.runs:
        lines = (run.path / "rounds.jsonl").read_text().splitlines()
        (run.path / "rounds.jsonl").write_text("".join(line + "\n" for line in lines[:rounds]))


def test_rivals_read_with_t1_have_their_own_oca(evidence: Evidence) -> None:
    def case(name: str, readout: str) -> Case:
        return Case("letters", 0.1, name, readout, "amp")

    known = {case(n, r): v for n, r, v in (("fedgen", "aca", 0.5), ("fedgen", "oca", 0.7))}
    known |= {case("fedkf", "aca"): 0.6, case("fedkf", "oca"): 0.65}
    found = paper.all_with_t1(known)
    assert found[case("fedgen", "aca")] == 0.7
    assert found[case("fedkf", "aca")] == 0.6
