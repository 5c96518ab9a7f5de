"""What a round takes is measured in turns, kept, and used for the time to a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedkf.paper import pace, speed
from fedkf.paper.grid import ROW
from fedkf.paper.pace import Pace, measure, read
from fedkf.paper.scales import SCALES, main_plans
from fedkf.runs.collect import Group
from fedkf.runs.experiment import execute

SCALE = SCALES["smoke"]
TINY = {
    "federation.local_epochs": 1,
    "federation.steps": 1,
    "generator.width": 2,
    "generator.batch_size": 2,
}


def test_every_method_has_its_turn_and_the_medians_are_kept(tmp_path: Path) -> None:
    scale = replace(SCALE, overrides={**SCALE.overrides, **TINY})
    plans = main_plans(scale, methods=["fedavg", "fedkf+"], alphas=[0.1])
    said: list[str] = []
    found = measure(plans, tmp_path, said.append, turns=2)
    assert set(found.seconds) == {("digits", "fedavg"), ("digits", "fedkf+")}
    assert all(value > 0 for value in found.seconds.values())
    turns = [text for text in said if text.startswith("measuring")]
    assert [text.split()[2].rstrip(",") for text in turns] == ["fedavg", "fedkf+"] * 2
    kept = read(tmp_path)
    assert kept is not None
    assert kept.workers == found.workers
    assert kept.seconds == pytest.approx(found.seconds, abs=1e-4)


def test_rounds_are_timed_when_every_method_does_all_of_its_work() -> None:
    scale = replace(SCALE, overrides={**SCALE.overrides, **TINY, "fidelity": "released"})
    (plan,) = main_plans(scale, methods=["fedgkd"], alphas=[0.1])
    history = execute(pace.short(plan.config)).history
    waiting, timed = history[: pace.WARM], history[pace.WARM :]
    assert not any("kl" in record["losses"] for record in waiting)
    assert all("kl" in record["losses"] for record in timed)
    assert len(pace.rounds_of(pace.short(plan.config))) == pace.TIMED


def test_nothing_or_nonsense_is_no_measurement(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / pace.FILE).write_text('{"seconds": 3}')
    assert read(tmp_path) is None


def test_a_busy_machine_is_said() -> None:
    assert "busy (load 3.0)" in Pace({}, 3.0, 2).about()
    assert "busy" not in Pace({}, 0.1, 2).about()


def test_without_a_measurement_the_table_says_whose_times_they_are() -> None:
    groups = [Group({"config": "digits", ROW: "fedavg"}, [])]
    (table,) = speed.time_to_target(groups, SCALE)
    assert speed.AS_THEY_RAN in table.notes
    (table,) = speed.time_to_target(groups, SCALE, Pace({("digits", "fedavg"): 1.0}, 0.0, 2))
    assert "measured in turns with 2 workers" in " ".join(table.notes)
