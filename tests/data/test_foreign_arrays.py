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


WORDS = np.array(["sit", "walk", "run"])[ACTIVITY]


@pytest.mark.parametrize("nothing", ["", " ", "n/a"])
def test_samples_without_a_label_are_left_out_and_counted(tmp_path: Path, nothing: str) -> None:
    words = WORDS.copy()
    words[[0, 4]] = nothing
    days = np.arange(24)
    reading = Reading(split_by="day")
    source, said = told(
        tmp_path, reading, signals=SIGNALS, labels=words, client=PEOPLE, day=days, scale=np.ones(3)
    )
    assert said == ["2 of 24 samples have no label and are left out"]
    assert source.class_names == ["run", "sit", "walk"]
    kept = np.delete(days, [0, 4])
    np.testing.assert_array_equal(source.inputs, SIGNALS[kept].astype(np.float32))
    assert source.units is not None
    assert source.owners is not None
    assert len(source.units) == len(source.owners) == 22


def test_of_images_too_and_a_site_without_labels_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    images, words = np.zeros((24, 8, 8), np.uint8), WORDS.copy()
    words[PEOPLE == 9] = ""
    np.savez(tmp_path / "mine.npz", images=images, labels=words, client=PEOPLE)
    source = read("npz", str(tmp_path / "mine.npz"), Reading(), said.append)
    assert source.class_names == ["run", "sit", "walk"]
    assert source.owner_names == ["7"]
    assert said == ["12 of 24 samples have no label and are left out", "no sample is left of 9"]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_labels_that_are_nan_are_none(tmp_path: Path, task: str) -> None:
    labels = ACTIVITY.astype(np.float64)
    labels[3] = np.nan
    arrays = {"signals": SIGNALS, "client": PEOPLE}
    source, said = told(tmp_path, Reading(task=task), labels=labels, **arrays)
    assert said == ["1 of 24 samples has no label and is left out"]
    assert source.labels.tolist() == np.delete(ACTIVITY, 3).tolist()
    with pytest.raises(UserError, match=r"no sample has a label \(labels\)"):
        told(tmp_path, Reading(task=task), labels=labels * np.nan, **arrays)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_numbers_that_stand_for_no_label_are_none(tmp_path: Path, kind: type) -> None:
    labels: Any = np.where(np.arange(24) % 12 == 3, -9, ACTIVITY).astype(kind)
    reading = Reading(task="regression", missing_values=["", "-9"])
    source, said = told(tmp_path, reading, signals=SIGNALS, labels=labels, client=PEOPLE)
    assert said == ["2 of 24 samples have no label and are left out"]
    assert source.labels.min() == 0


def test_channels_that_were_never_measured_are_told(tmp_path: Path) -> None:
    partly = SIGNALS.copy()
    partly[:, 1] = np.nan
    partly[PEOPLE == 9, 2] = np.nan
    partly[:, 0, :9] = np.nan  # gaps are nothing to tell
    _, said = told(tmp_path, signals=partly, labels=ACTIVITY, client=PEOPLE)
    assert said == [
        "channel 1: never measured, which tells a model nothing",
        "channel 2: never measured at 9, so that models get a stand-in there",
    ]
    chosen = Reading(columns=["2", "0"])
    _, said = told(tmp_path, chosen, signals=partly, labels=ACTIVITY, client=PEOPLE)
    assert said == ["channel 2: never measured at 9, so that models get a stand-in there"]


def test_channels_that_never_change_are_told_by_their_own_numbers(tmp_path: Path) -> None:
    flat = SIGNALS.copy()
    flat[:, 2] = 1
    arrays = {"signals": flat, "labels": ACTIVITY, "client": PEOPLE}
    for columns in (None, ["1", "2"], ["2", "0"]):
        _, said = told(tmp_path, Reading(columns=columns), **arrays)
        assert said == ["channel 2: the same value everywhere, which tells a model nothing"]


def test_a_window_of_signals_that_are_none_of_recordings_is_told(tmp_path: Path) -> None:
    arrays = {"signals": SIGNALS, "labels": ACTIVITY, "client": PEOPLE}
    source, (text,) = told(tmp_path, Reading(window=4), **arrays)
    assert text.startswith("data.window and data.stride are for recordings in CSV files")
    assert source.inputs.shape == SIGNALS.shape


@pytest.mark.parametrize(
    "labels",
    [
        {"labels": WORDS},
        {"labels": ACTIVITY, "label_names": np.array(["sit", "walk", "run"])},
    ],
)
def test_one_class_may_count_against_all_others(tmp_path: Path, labels: dict[str, Any]) -> None:
    reading = Reading(task="binary", positive="walk")
    source, said = told(tmp_path, reading, signals=SIGNALS, client=PEOPLE, **labels)
    assert source.class_names == ["not walk", "walk"]
    assert source.labels.tolist() == (ACTIVITY == 1).astype(int).tolist()
    assert said == [
        "labels: 'sit' (8 samples) and 'run' (8 samples) count as 'not walk' "
        "(data.positive is 'walk')"
    ]
    named = Reading(task="binary", positive="walk", class_names=["rest", "walk"])
    source, _ = told(tmp_path, named, signals=SIGNALS, client=PEOPLE, **labels)
    assert source.class_names == ["rest", "walk"]
    with pytest.raises(UserError, match=r"'labels' is 'walk' in 8 samples, .*mine\.npz, sample 1"):
        told(
            tmp_path,
            Reading(task="binary", positive="Walk"),
            signals=SIGNALS,
            client=PEOPLE,
            **labels,
        )


def test_numbers_may_be_compared_and_events_coded_otherwise(tmp_path: Path) -> None:
    above = Reading(task="binary", positive=">0")
    source, said = told(tmp_path, above, signals=SIGNALS, client=PEOPLE, labels=ACTIVITY)
    assert said == []
    assert source.labels.tolist() == (ACTIVITY > 0).astype(int).tolist()
    both = np.stack([np.arange(24) / 3, 1.0 + (ACTIVITY > 0)], axis=1)
    events = Reading(task="survival", positive="2")
    source, said = told(tmp_path, events, signals=SIGNALS, client=PEOPLE, labels=both)
    np.testing.assert_array_equal(
        source.labels, np.stack([np.arange(24) / 3, ACTIVITY > 0], axis=1).astype(np.float32)
    )


def test_a_moment_that_must_be_a_mistake_is_refused(tmp_path: Path) -> None:
    signals = SIGNALS.astype(np.float32)
    signals[5, 0, 3], signals[6, 0, 3] = 1e30, np.nan
    with pytest.raises(
        UserError, match=r"channel 0 is 1e\+30 in sample 5, which is absurdly large"
    ):
        told(tmp_path, Reading(), signals=signals, client=PEOPLE, labels=WORDS)
    source, _ = told(tmp_path, Reading(), signals=signals * 0 + 1e30, labels=WORDS)
    assert np.nanmax(source.inputs) == np.float32(1e30)  # in whatever unit


def test_a_label_without_a_name_is_refused(tmp_path: Path) -> None:
    names = np.array(["sit", "walk"])
    reading = Reading(task="binary", positive="walk")
    with pytest.raises(UserError, match="label_names has 2 names for labels from 0, but one is 2"):
        told(tmp_path, reading, signals=SIGNALS, labels=ACTIVITY, label_names=names)


@pytest.mark.parametrize("labels", [np.array(3), np.zeros(0), np.zeros((0, 2)), np.zeros((2, 0))])
def test_labels_of_no_samples_are_refused_and_no_surprise(
    labels: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="labels"):
        told(tmp_path, signals=np.ones((4, 1, 8)), labels=labels)
