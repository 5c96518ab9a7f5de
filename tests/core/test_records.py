"""Records: written as they always were, read with care."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedkf.core.records import Round, Summary, best_round
from fedkf.core.scores import Score
from fedkf.core.shapes import Damage, parse_json
from fedkf.metrics import METRICS

LINE: dict[str, Any] = {
    "round": 3,
    "active": [0, 2],
    "refused": [{"client": 1, "reason": "late"}],
    "readouts": {
        "aca": {"amp": 0.5, "fm": 0.0, "wlp": 0.5, "clients": [0, 1], "accuracy": [0.5, None]}
    },
    "losses": {"loss": 1.5},
    "bytes": {"down": 8, "up": 4},
    "seconds": {"total": 0.25},
}


def test_a_round_is_written_as_it_was_read() -> None:
    line = json.loads(json.dumps(LINE))
    line["readouts"]["aca"].update(worst10=0.5, gini=0.0)
    assert json.loads(json.dumps(Round.read(line).as_json())) == line


def test_a_metric_that_came_later_is_computed_from_the_accuracies_of_old_records() -> None:
    score = Score.read({"amp": 0.4, "clients": [0, 1], "accuracy": [0.2, 0.6]})
    assert score["worst10"] == 0.2
    assert score["gini"] == pytest.approx(0.25)


def test_metrics_that_need_sizes_cannot_be_made_up() -> None:
    assert Score.read({"clients": [0], "accuracy": [0.2]})["amp"] is None


def test_without_test_data_there_are_no_numbers() -> None:
    score = Score.read({**dict.fromkeys(METRICS), "clients": [0], "accuracy": [None]})
    assert set(score.values.values()) == {None}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"round": 0}, "round must be at least 1"),
        ({"round": "3"}, "round must be a whole number of at least 0"),
        ({"active": None}, "active must be a list"),
        ({"losses": {"loss": float("nan")}}, "losses.loss must be a finite number"),
        ({"bytes": {"up": -1}}, "bytes.up must be a whole number of at least 0"),
        ({"refused": [{}]}, "refused.client is missing"),
        ({"readouts": {"aca": None}}, "readouts.aca must be an object, not NoneType"),
        (
            {"readouts": {"aca": {"clients": [0], "accuracy": [2]}}},
            "readouts.aca.accuracy must hold numbers between 0 and 1",
        ),
        (
            {"readouts": {"aca": {"clients": [0], "accuracy": []}}},
            "readouts.aca.accuracy must be as many as clients",
        ),
    ],
)
def test_what_does_not_fit_is_damage_with_its_place(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Damage, match="^" + sentence):
        Round.read({**LINE, **change})


def test_what_is_no_object_or_no_json_is_damage() -> None:
    with pytest.raises(Damage, match="must be an object"):
        Summary.read(None)
    with pytest.raises(Damage, match="is no JSON"):
        parse_json(b"{")
    with pytest.raises(Damage, match="is no JSON"):
        parse_json(b"[" * 100_000)


def test_the_best_round_is_the_first_with_the_highest_amp() -> None:
    rounds = [
        Round(n, readouts={"aca": Score({"amp": amp, "wlp": n / 10})})
        for n, amp in enumerate([0.2, 0.8, None, 0.8], 1)
    ]
    best = best_round(rounds, "aca")
    assert best is not None
    assert (best.round, best["wlp"]) == (2, 0.2)
    assert best_round(rounds, "oca") is None
