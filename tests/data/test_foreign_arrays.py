"""Arrays as they come: classes from 1, floats and truths as labels, names of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.data.sources import read
from fedkf.data.targets import Targets

RANDOM = np.random.default_rng(0)
SIGNALS = RANDOM.normal(size=(24, 3, 16))
ACTIVITY = np.arange(24) % 3
PEOPLE = np.repeat([7, 9], 12)


def told(folder: Path, reading: Reading | None = None, **arrays: Any) -> tuple[Source, list[str]]:
    said: list[str] = []
    np.savez(folder / "mine.npz", **arrays)
    source = read("signals", str(folder / "mine.npz"), reading or Reading(), said.append)
    return source, said


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64])
def test_classes_from_one_have_no_class_nobody_holds(tmp_path: Path, kind: type) -> None:
    source, _ = told(tmp_path, signals=SIGNALS, labels=(ACTIVITY + 1).astype(kind), client=PEOPLE)
    assert source.class_names == ["1", "2", "3"]
    np.testing.assert_array_equal(source.labels, ACTIVITY)


def test_a_site_that_lacks_the_first_class_numbers_them_as_the_others_do() -> None:
    def wrong(reason: str) -> UserError:
        return UserError(reason)

    asked = Targets(class_names=["1", "2", "3"], least_classes=1)
    assert asked.read(np.array([2, 3]), wrong)[0].tolist() == [1, 2]
    renamed = Targets(class_names=["sit", "walk", "run"], least_classes=1)
    assert renamed.read(np.array([1, 2]), wrong)[0].tolist() == [1, 2]


@pytest.mark.parametrize("labels", [ACTIVITY.astype(np.float32), ACTIVITY > 0])
def test_whole_floats_and_truths_are_classes(tmp_path: Path, labels: Any) -> None:
    source, _ = told(tmp_path, signals=SIGNALS, labels=labels, client=PEOPLE)
    np.testing.assert_array_equal(source.labels, labels.astype(int))


def test_the_configuration_may_name_the_arrays(tmp_path: Path) -> None:
    arrays = {"signals": SIGNALS, "y": ACTIVITY, "subject": PEOPLE, "sex": PEOPLE == 7}
    source, said = told(tmp_path, Reading(target="y", site="subject"), **arrays)
    assert source.owner_names == ["7", "9"]
    assert said == []
    with pytest.raises(UserError, match=r"has no array 'labels' .*data.target names other labels"):
        told(tmp_path, None, **arrays)
    with pytest.raises(UserError, match=r"data\.site: .* has no array 'person'"):
        told(tmp_path, Reading(target="y", site="person"), **arrays)
    _, (said_,) = told(tmp_path, Reading(target="y"), **arrays)
    assert said_.endswith("data.site names an array that does (sex, subject are not used)")


def test_survival_may_have_an_array_for_time_and_one_for_the_event(tmp_path: Path) -> None:
    days, dead = np.arange(24.0), ACTIVITY == 0
    reading = Reading(task="survival", target=["days", "dead"])
    source, _ = told(tmp_path, reading, signals=SIGNALS, days=days, dead=dead, client=PEOPLE)
    np.testing.assert_array_equal(source.labels, np.stack([days, dead], axis=1))


def test_images_may_have_arrays_of_other_names_too(tmp_path: Path) -> None:
    images = RANDOM.random((24, 8, 8))
    np.savez(tmp_path / "mine.npz", images=images, thing=ACTIVITY, camera=PEOPLE)
    reading = Reading(target="thing", site="camera")
    assert read("npz", str(tmp_path / "mine.npz"), reading).owner_names == ["7", "9"]


def test_signals_with_more_channels_than_moments_are_asked_about(tmp_path: Path) -> None:
    turned = SIGNALS.transpose(0, 2, 1)
    _, said = told(tmp_path, signals=turned, labels=ACTIVITY, client=PEOPLE)
    assert said == [
        "signals have 16 channels and 3 moments each (N×channels×time); if it is the other way "
        "round, save signals.transpose(0, 2, 1)"
    ]
    assert told(tmp_path, signals=SIGNALS, labels=ACTIVITY, client=PEOPLE)[1] == []


@pytest.mark.parametrize("name", ["signals", "labels"])
def test_objects_are_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    arrays = {"signals": SIGNALS, "labels": ACTIVITY, "client": PEOPLE}
    arrays[name] = np.array([None] * 24, dtype=object)
    with pytest.raises(UserError, match=rf"'{name}' holds dtype\('O'\); .* {name}\.astype\(str\)"):
        told(tmp_path, None, **arrays)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.inf, r"mine\.npz: the label of sample 5 is inf, which is no finite number"),
        (1e30, r"the label of sample 5 is 1e\+30, which is absurdly large beside the others"),
    ],
)
def test_numbers_out_of_all_proportion_are_no_targets(
    tmp_path: Path, value: float, sentence: str
) -> None:
    costs = np.arange(24) * 10.0
    costs[5] = value
    with pytest.raises(UserError, match=sentence):
        told(tmp_path, Reading(task="regression"), signals=SIGNALS, labels=costs, client=PEOPLE)
    both = np.stack([costs, PEOPLE == 7], axis=1)
    with pytest.raises(UserError, match=sentence):
        told(tmp_path, Reading(task="survival"), signals=SIGNALS, labels=both, client=PEOPLE)


def test_several_classes_a_sample_are_refused(tmp_path: Path) -> None:
    labels = np.eye(3, dtype=int)[ACTIVITY]
    with pytest.raises(
        UserError, match=r"labels have shape \(24, 3\); there is one class a sample"
    ):
        told(tmp_path, signals=SIGNALS, labels=labels, client=PEOPLE)
