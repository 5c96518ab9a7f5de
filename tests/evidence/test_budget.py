"""What accuracy costs, on records made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evidence import budget, paper
from evidence.reading import Evidence
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


def test_methods_are_held_against_each_other_in_fedavgs_time_and_with_its_bytes(
    evidence: Evidence,
) -> None:
    assert budget.in_time(evidence) == {"fedavg": 10, "fedkf": 3}
    assert budget.in_bytes(evidence) == {"fedavg": 10, "fedkf": 5}
    row = budget.budget(evidence).splitlines()[-1]
    assert row == "| FedKF (OCA) | 3 | 15.0 | 5 | 20.0 |"  # of the fourth round: the last tested


def test_a_speedup_is_of_all_rounds_over_those_to_fedavgs_accuracy(evidence: Evidence) -> None:
    settings = evidence.settings("letters")
    letters = World("letters", "α = 0.1", settings)
    by = {m.name: budget.speedup(evidence, letters, m) for m in budget.racing(letters)}
    assert list(by) == ["FedAvg (ACA)", "FedAvg (OCA)", "FedKF (OCA)"]
    assert budget.speedup_cell("FedAvg (OCA)", by) == "1.0 / 1.0 / 1.0"
    found = by["FedKF (OCA)"]  # at 40 % after the eighth round
    assert found is not None
    ways = (found.rounds, found.time, found.bytes)
    assert ways == pytest.approx((10 / 8, 10 / 8 / 3, 10 / 16))
    assert not budget.ahead(by, "FedKF (OCA)")  # later by the clock
    assert budget.ahead({**by, "FedKF (OCA)": budget.Speedup(1, 1.1, 1)}, "FedKF (OCA)")
    assert not budget.ahead({**by, "FedKF (OCA)": by["FedAvg (ACA)"]}, "FedKF (OCA)")

    untimed = World("", "heart", settings)
    (own,) = [m for m in budget.racing(untimed) if m.setting.algorithm == "fedkf"]
    cell = budget.speedup_cell("own", {"own": budget.speedup(evidence, untimed, own)})
    assert cell == "1.2 / – / 0.6"


def test_who_does_not_come_to_fedavgs_accuracy_has_no_speedup(evidence: Evidence) -> None:
    path = evidence.results / "letters" / "alpha=0.1,fedkf,seed=0" / "rounds.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:7]))
    letters = World("letters", "α = 0.1", evidence.settings("letters"))
    (own,) = [m for m in budget.racing(letters) if m.setting.algorithm == "fedkf"]
    assert budget.speedup(evidence, letters, own) is None
    by = {"FedAvg (ACA)": budget.Speedup(1, 1, 1), own.name: None}
    assert not budget.ahead(by, own.name)
    assert budget.speedup_cell(own.name, by) == "not with every seed"


def test_rivals_read_with_t1_have_their_own_oca(evidence: Evidence) -> None:
    def case(name: str, readout: str) -> Case:
        return Case("letters", 0.1, name, readout, "amp")

    known = {case(n, r): v for n, r, v in (("fedgen", "aca", 0.5), ("fedgen", "oca", 0.7))}
    known |= {case("fedkf", "aca"): 0.6, case("fedkf", "oca"): 0.65}
    found = paper.all_with_t1(known)
    assert found[case("fedgen", "aca")] == 0.7
    assert found[case("fedkf", "aca")] == 0.6
