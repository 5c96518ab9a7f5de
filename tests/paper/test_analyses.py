"""What is made of finished runs, on records with numbers chosen by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedkf.paper import analyses, speed
from fedkf.paper.pace import Pace
from fedkf.paper.scales import choose
from fedkf.runs.collect import Group
from fedkf.runs.config import read, resolve
from fedkf.runs.suite import Finished

SCALE = choose("smoke")


def run(
    folder: Path,
    name: str,
    aca: Sequence[float],
    oca: Sequence[float] | None = None,
    seed: int = 0,
    seconds: float = 10.0,
    drift: Sequence[float] = (),
) -> Finished:
    """A record with these AMPs; every round sends 3 MB down and 1 MB up."""
    path = folder / f"{name}-{seed}"
    path.mkdir(parents=True)
    records: list[dict[str, Any]] = []
    for k, (a, o) in enumerate(zip(aca, oca or aca, strict=True)):
        scores = {
            r: {"amp": v, "fm": 0.01, "wlp": v / 2, "clients": [0, 1], "accuracy": [v / 2, v]}
            for r, v in (("aca", a), ("oca", o))
        }
        record = {"round": k + 1, "readouts": scores, "bytes": {"down": 3_000_000, "up": 1_000_000}}
        records.append({**record, "losses": {"drift": drift[k]} if drift else {}})
    (path / "rounds.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    summary = {
        "algorithm": name,
        "seed": seed,
        "rounds": len(aca),
        "readouts": records[-1]["readouts"],
        "seconds": {"train": seconds - 1, "aggregate": 1.0, "evaluate": 99.0},
    }
    (path / "summary.json").write_text(json.dumps(summary))
    overrides = {"algorithm.name": name, "engine.workers": 0, "federation.seed": seed}
    return Finished(path, resolve(read("digits")[0], overrides))


def group(name: str, *runs: Finished) -> Group:
    return Group({"config": "digits", "algorithm.name": name, "data.alpha": 0.1}, runs)


def test_rounds_to_target_are_found_seed_by_seed(tmp_path: Path) -> None:
    groups = [
        group(
            "fedavg",
            run(tmp_path, "fedavg", [0.1, 0.3, 0.5, 0.4], seed=0),
            run(tmp_path, "fedavg", [0.1, 0.2, 0.3, 0.8], seed=1),
        ),
        group(
            "fedkf",
            run(tmp_path, "fedkf", [0.4, 0.5, 0.6, 0.7], [0.1, 0.2, 0.3, 0.9], seed=0),
            run(tmp_path, "fedkf", [0.4, 0.5, 0.6, 0.7], [0.1, 0.2, 0.8, 0.9], seed=1),
        ),
    ]
    (table,) = speed.rounds_to_target(groups, SCALE)
    assert table.rows["FedAvg (ACA)"][0].values == (3, 4)  # the same rule for FedAvg
    assert table.rows["FedKF (OCA)"][0].values == (4, 3)
    partly = table.rows["FedKF (ACA)"][0]
    assert (partly.values, partly.text) == ((1,), "1 (1 of 2 seeds)")
    assert table.rows["FedKF (ACA)"][0].beside == "31"
    assert table.rows["FedKF (OCA)"][1].values == (4 / 3.5,)


def test_a_run_is_not_held_against_one_on_other_data(tmp_path: Path) -> None:
    fedavg = [run(tmp_path / f"{k}", "fedavg", [0.1, last]) for k, last in enumerate((0.9, 0.3))]
    own = [run(tmp_path / f"{k}", "fedkf", [0.2, 0.4]) for k in range(2)]
    for k, divided in enumerate((own, fedavg)):
        moved = divided[k].config.data.model_copy(update={"seed": 7})
        divided[k] = Finished(divided[k].path, divided[k].config.model_copy(update={"data": moved}))
    # Divided by seed 7: the first of FedKF's runs, and the second of FedAvg's, whose AMP is 0.3.
    (table,) = speed.rounds_to_target([group("fedavg", *fedavg), group("fedkf", *own)], SCALE)
    cell = table.rows["FedKF (ACA)"][0]
    assert (cell.values, cell.text) == ((2,), "2 (1 of 2 seeds)")


def test_a_target_that_is_never_reached_is_more_than_all_rounds(tmp_path: Path) -> None:
    groups = [
        group("fedavg", run(tmp_path, "fedavg", [0.1, 0.9], seconds=5)),
        group("fedprox", run(tmp_path, "fedprox", [0.1, 0.2], seconds=8)),
    ]
    (rounds,) = speed.rounds_to_target(groups, SCALE)
    assert rounds.rows["FedProx (ACA)"][0].text == "> 2"
    assert rounds.rows["FedProx (ACA)"][1].text == "< 1"
    (time,) = speed.time_to_target(groups, SCALE)
    assert time.rows["FedProx (ACA)"][0].text == "> 8.0"
    assert time.rows["FedAvg (ACA)"][0].values == (5.0,)
    measured = Pace({("digits", "fedavg"): 0.25}, load=0.0, workers=2)
    (time,) = speed.time_to_target(groups, SCALE, measured)
    assert time.rows["FedAvg (ACA)"][0].values == (0.5,)
    assert "FedProx (ACA)" not in time.rows  # its own seconds would be of another day
    assert time.notes[-1].endswith("Not measured: FedProx.")
    (data,) = speed.bytes_to_target(groups, SCALE)
    assert data.rows["FedAvg (ACA)"][0].values == (8.0,)


def test_time_leaves_evaluation_out_and_is_told_as_a_ratio(tmp_path: Path) -> None:
    groups = [
        group("fedavg", run(tmp_path, "fedavg", [0.1], seconds=4)),
        group("fedkf", run(tmp_path, "fedkf", [0.1], seconds=10)),
    ]
    (table,) = speed.time(groups, SCALE)
    assert [cell.values for cell in table.rows["FedKF"]] == [(10.0,), (2.5,)]
    told = table.rows["FedKF"][1].published
    assert told is not None
    assert told.mean == pytest.approx(724 / 403)


def test_robustness_is_the_std_of_changes_over_the_last_half(tmp_path: Path) -> None:
    steady = run(tmp_path, "fedkf", [0.0, 0.9, 0.0, 0.5, 0.5, 0.6, 0.7, 0.8])
    (table,) = analyses.robustness([group("fedkf", steady)], SCALE)
    assert table.rows["FedKF (ACA)"][0].mean == pytest.approx(0.0, abs=1e-12)
    jumpy = run(tmp_path, "fedavg", [0.0, 0.9, 0.0, 0.5, 0.5, 0.7, 0.5, 0.7])
    assert analyses.unsteadiness(jumpy, "aca", "amp") == pytest.approx(0.2309, abs=1e-4)


def test_a_readout_that_early_rounds_do_not_have_is_taken_from_when_it_begins(
    tmp_path: Path,
) -> None:
    late = run(tmp_path, "fedkf", [0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.5])
    lines = [json.loads(line) for line in (late.path / "rounds.jsonl").read_text().splitlines()]
    del lines[0]["readouts"]["oca"]
    (late.path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert analyses.unsteadiness(late, "oca", "amp") == pytest.approx(0.0707, abs=1e-4)


def test_drift_by_halves_and_absent_from_old_records(tmp_path: Path) -> None:
    new = run(tmp_path, "fedkf", [0.1] * 4, drift=[4.0, 2.0, 1.0, 1.0])
    old = run(tmp_path, "fedavg", [0.1] * 4)
    (table,) = analyses.drift([group("fedkf", new), group("fedavg", old)], SCALE)
    assert [cell.values for cell in table.rows["FedKF"]] == [(3.0,), (1.0,)]
    assert [cell.values for cell in table.rows["FedAvg"]] == [(), ()]


def test_the_ablation_names_what_each_row_has(tmp_path: Path) -> None:
    groups = [
        group(name, run(tmp_path, name, [0.3], [0.4])) for name in ("fedavg", "fedkf-", "fedkf")
    ]
    (table,) = analyses.ablation(groups, SCALE)
    rows = list(table.rows)
    assert len(rows) == 6
    assert rows[0] == "neither: FedAvg (ACA)"
    assert rows[-1] == "T2, taught by T1; T1 as the final model: FedKF (OCA)"
    assert table.rows[rows[1]][0].values == (0.4,)
