"""Signals: arrays of channels over time, and recordings that are cut into windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.reading import Reading
from fedkf.data.signals import signals
from fedkf.data.source import Source
from fedkf.data.split import split


def save(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "data.npz", **arrays)
    return str(folder / "data.npz")


WAVES = np.arange(4 * 2 * 3, dtype=np.int16).reshape(4, 2, 3)
LABELS = np.array([0, 1, 1, 0])


def test_arrays_come_with_their_scale_names_and_split(tmp_path: Path) -> None:
    path = save(
        tmp_path,
        signals=WAVES,
        labels=LABELS,
        scale=np.array([2, 4]),
        client=np.array([1, 0, 1, 0]),
        client_names=np.array(["ann", "ben"]),
        label_names=np.array(["sit", "walk"]),
        split=np.array(["train", "test", "train", "train"]),
        record=np.array([7, 7, 8, 9]),
    )
    source = signals(path, Reading(split_by="record"))
    np.testing.assert_array_equal(source.inputs[1], [[3, 3.5, 4], [2.25, 2.5, 2.75]])
    assert source.class_names == ["sit", "walk"]
    assert source.owners is not None
    assert [source.owner_names[k] for k in source.owners] == ["ben", "ann", "ben", "ann"]
    assert source.tested is not None
    assert source.tested.tolist() == [False, True, False, False]
    assert source.units is not None
    assert source.units.tolist() == [0, 0, 1, 2]


def test_one_channel_needs_no_dimension_of_its_own(tmp_path: Path) -> None:
    source = signals(save(tmp_path, signals=WAVES[:, 0] * 1.5, labels=LABELS), Reading())
    assert source.inputs.shape == (4, 1, 3)
    assert source.inputs.dtype == np.float32


@pytest.mark.parametrize(
    "parts",
    [
        ["Train", "TEST", "training ", "train"],
        [b"train", b"test", b"train", b"train"],
        [0, 1, 0, 0],
        [0.0, 1.0, 0.0, 0.0],
        [False, True, False, False],
    ],
)
def test_a_split_may_be_written_in_many_ways(tmp_path: Path, parts: list[Any]) -> None:
    arrays = {"signals": WAVES, "labels": LABELS, "split": np.array(parts)}
    source = signals(save(tmp_path, **arrays), Reading())
    assert source.tested is not None
    assert source.tested.tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        (["train", "val", "test", "train"], "'test', 'train', 'val'"),
        (["set-a", "set-b", "set-a", "set-b"], "'set-a', 'set-b'"),
        ([0, 1, 2, 0], "0, 1, 2"),
    ],
)
def test_a_split_into_other_parts_is_refused(tmp_path: Path, parts: list[Any], found: str) -> None:
    arrays = {"signals": WAVES, "labels": LABELS, "split": np.array(parts)}
    with pytest.raises(
        UserError, match=rf"data\.npz: split holds {found}; it takes train and test"
    ):
        signals(save(tmp_path, **arrays), Reading())


@pytest.mark.parametrize(
    ("arrays", "reading", "sentence"),
    [
        ({"signals": WAVES[..., None]}, Reading(), "N×channels×time or N×time"),
        ({"signals": WAVES[:2]}, Reading(), "2 signals but labels of shape (4,)"),
        ({"scale": np.array(0)}, Reading(), "scale must be one number above 0"),
        ({"scale": np.array("mV")}, Reading(), "scale must be one number above 0"),
        ({"scale": np.array([1 + 1j, 2])}, Reading(), "scale must be one number above 0"),
        ({"client": np.zeros(3)}, Reading(), "4 labels but client has shape (3,)"),
        ({}, Reading(split_by="record"), "has no array 'record'"),
        ({}, Reading(split_by="client"), "data.split_by: "),
        ({"client": np.array(["a", "", "b", "b"])}, Reading(), "sample 1 names no site ('client')"),
        ({"client": np.array(["a", "a", "NA", "b"])}, Reading(), "sample 2 names no site"),
        ({"client": np.array([1, np.nan, 2, 2])}, Reading(), "sample 1 names no site"),
        (
            {"client": np.array([1, 1, 2, -9.0])},
            Reading(missing_values=["-9"]),
            "sample 3 names no site",
        ),
        (
            {"days": np.arange(4.0), "dead": np.ones(3)},
            Reading(task="survival", target=["days", "dead"]),
            "data.npz: days has 4 values and dead has 3 values",
        ),
        ({}, Reading(columns=["2"]), "channels 0 to 1, not '2'"),
        ({"signals": np.full((4, 2, 3), np.inf)}, Reading(), "infinite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, Any], reading: Reading, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        signals(save(tmp_path, **{"signals": WAVES, "labels": LABELS, **arrays}), reading)
    assert sentence in str(caught.value)


# -- recordings ------------------------------------------------------------------------------------


def record(file: Path, rows: int, label: str | None = None, **more: list[str]) -> None:
    """A recording whose first channel counts its rows, though not as steadily as a clock."""
    file.parent.mkdir(parents=True, exist_ok=True)
    counted = [str(k + k % 2 / 10) for k in range(rows)]
    columns = {"time": [f"{k / 10}" for k in range(rows)], "x": counted}
    columns |= {
        "y": [f"{1.5 + k % 2}" for k in range(rows)],
        **({"act": [label] * rows} if label else {}),
        **more,
    }
    lines = [",".join(cells) for cells in zip(*columns.values(), strict=True)]
    file.write_text("\n".join([",".join(columns), *lines]))


def owned(source: Source) -> dict[str, list[int]]:
    """The first row of every window, by site."""
    assert source.owners is not None
    starts = source.inputs[:, 0, 0].astype(int).tolist()
    found: dict[str, list[int]] = {name: [] for name in source.owner_names}
    for owner, start in zip(source.owners.tolist(), starts, strict=True):
        found[source.owner_names[owner]].append(start)
    return found


def test_a_folder_of_sites_holds_folders_of_classes(tmp_path: Path) -> None:
    for site in ("north", "south"):
        for label in ("sit", "walk"):
            record(tmp_path / site / label / "1.csv", 7)
    source = signals(str(tmp_path), Reading(window=4, stride=2))
    assert source.inputs.shape == (8, 2, 4)  # the clock is no channel
    assert owned(source) == {"north": [0, 2, 0, 2], "south": [0, 2, 0, 2]}
    assert source.class_names == ["sit", "walk"]
    assert source.units is not None
    assert source.units.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_copies_in_hidden_folders_are_no_recordings(tmp_path: Path) -> None:
    for label in ("sit", "walk"):
        record(tmp_path / "north" / label / "1.csv", 7)
    record(tmp_path / "north" / "sit" / ".ipynb_checkpoints" / "1-checkpoint.csv", 7)
    source = signals(str(tmp_path), Reading(window=4, stride=2))
    assert owned(source) == {"north": [0, 2, 0, 2]}


def test_the_commonest_label_of_its_rows_is_a_windows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        record(tmp_path / "ann" / f"{name}.csv", 8, act=["sit"] * 3 + ["walk"] * 5)
    source = signals(str(tmp_path), Reading(window=4, target="act"))
    assert [source.class_names[k] for k in source.labels] == ["sit", "walk"] * 2
    assert source.owner_names == ["ann"]


def test_a_pattern_of_the_files_names_tells_the_site(tmp_path: Path) -> None:
    for name in ("S01_walk", "S01_sit", "S02_walk"):
        record(tmp_path / f"{name}.csv", 4, name[4:])
    source = signals(str(tmp_path), Reading(window=2, target="act", site=r"(S\d+)_"))
    assert owned(source) == {"S01": [0, 2, 0, 2], "S02": [0, 2]}


@pytest.mark.parametrize("nobody", ["", "NA"])
def test_a_row_without_a_site_is_refused_unless_it_has_no_label(
    tmp_path: Path, nobody: str
) -> None:
    reading = Reading(window=2, target="act", site="user")
    acts = ["sit", "sit", "walk", "walk"] * 3
    record(tmp_path / "all.csv", 12, act=acts, user=["ann"] * 8 + [nobody] * 4)
    with pytest.raises(UserError, match=r"all\.csv, line 10 names no site \('user'\)"):
        signals(str(tmp_path / "all.csv"), reading)
    record(tmp_path / "all.csv", 12, act=acts[:8] + [""] * 4, user=["ann"] * 8 + [nobody] * 4)
    assert signals(str(tmp_path / "all.csv"), reading).owner_names == ["ann"]


def test_a_pattern_that_finds_nothing_between_its_brackets_names_no_site(tmp_path: Path) -> None:
    for name in ("S1_walk", "_sit"):
        record(tmp_path / f"{name}.csv", 4, name[-3:])
    with pytest.raises(UserError, match=r"_sit\.csv, line 2 names no site"):
        signals(str(tmp_path), Reading(window=2, target="act", site=r"(S\d)?_"))


def test_one_file_may_hold_several_people(tmp_path: Path) -> None:
    said: list[str] = []
    who = ["ann"] * 12 + ["ben"] * 9
    record(tmp_path / "all.csv", 21, act=["sit"] * 6 + ["walk"] * 15, user=who)
    reading = Reading(window=3, target="act", site="user")
    source = signals(str(tmp_path / "all.csv"), reading, said.append)
    assert owned(source) == {"ann": [0, 3, 6, 9], "ben": [12, 15, 18]}
    assert source.units is not None
    assert source.units.tolist() == [0, 0, 1, 1, 2, 2, 2]  # a piece ends where the label changes
    assert said[0].startswith("2 sites have a single recording")


def test_a_long_recording_is_cut_into_pieces_of_one_length(tmp_path: Path) -> None:
    record(tmp_path / "ann.csv", 63, "sit")
    record(tmp_path / "ben.csv", 30, act=["sit"] * 15 + ["walk"] * 15)
    source = signals(str(tmp_path), Reading(target="act", site="ann|ben", window=3))
    assert source.units is not None
    assert np.bincount(source.units).tolist() == [7, 7, 7, 5, 5]


def test_channels_that_never_change_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,act\n" + "1,1,sit\n" * 9 + "1,2,walk\n" * 9)
    said: list[str] = []
    signals(str(tmp_path / "a.csv"), Reading(target="act", window=2), said.append)
    assert "channel x: the same value everywhere, which tells a model nothing" in said


def test_recordings_that_are_too_short_are_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    for name, rows in (("long", 9), ("other", 9), ("short", 3)):
        record(tmp_path / "ann" / f"{name}.csv", rows, act=["sit"] + ["walk"] * (rows - 1))
    reading = Reading(window=4, target="act", least_classes=1)
    assert len(signals(str(tmp_path), reading, said.append).labels) == 4
    assert said == ["1 recording is shorter than data.window (4) and left out: ann/short.csv"]


def test_a_window_longer_than_every_recording_is_a_mistake(tmp_path: Path) -> None:
    record(tmp_path / "ann" / "a.csv", 9, "sit")
    with pytest.raises(UserError, match=r"data.window is 10, but the longest recording .* 9 rows"):
        signals(str(tmp_path), Reading(window=10, target="act"))


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (Reading(target="act"), "data.window is missing"),
        (Reading(window=2), "data.target is missing"),
        (Reading(window=2, target="atc"), "no column 'atc'; did you mean 'act'?"),
        (Reading(window=2, target="act", site="(S"), "which is no pattern"),
        (Reading(window=2, target="act", site="subject"), "has no column and no part 'subject'"),
        (Reading(window=2, target="act", columns=["x", "z"]), "no column 'z'"),
        (Reading(window=2, target="act"), "all rows have the same target"),
        (Reading(window=2, target="y", columns=["act"]), "'act' holds numbers, but 'sit'"),
        (Reading(window=2, target="y"), "or name the column in data.ignore"),
    ],
)
def test_recordings_that_cannot_be_read_are_named(
    tmp_path: Path, reading: Reading, sentence: str
) -> None:
    record(tmp_path / "a.csv", 4, "sit")
    with pytest.raises(UserError) as caught:
        signals(str(tmp_path), reading)
    assert sentence in str(caught.value)


def test_the_only_recording_of_a_class_is_cut_so_that_the_class_is_tested(tmp_path: Path) -> None:
    said: list[str] = []
    for person in ("ann", "ben"):
        for act in ("run", "sit", "walk"):
            record(tmp_path / person / f"{act}.csv", 40, act)
    source = signals(str(tmp_path), Reading(window=4, target="act"), said.append)
    (text,) = said
    assert text.startswith("6 recordings are the only ones of their class at their site")
    parts = [np.flatnonzero(source.owners == k) for k in range(2)]
    train, test = split(source, parts, 0.8, np.random.default_rng(0), "stratified")
    for kept, tested in zip(train, test, strict=True):
        assert set(source.labels[kept]) == set(source.labels[tested]) == {0, 1, 2}
        assert source.units is not None
        assert not set(source.units[kept]) & set(source.units[tested])


def test_several_recordings_of_each_class_stay_whole(tmp_path: Path) -> None:
    said: list[str] = []
    for number, act in enumerate(("run", "sit") * 2):
        record(tmp_path / "ann" / f"{number}.csv", 40, act)
    source = signals(str(tmp_path), Reading(window=4, target="act"), said.append)
    assert said == []
    assert source.units is not None
    assert np.bincount(source.units).tolist() == [10] * 4


def test_what_split_by_names_is_never_cut_and_spans_files(tmp_path: Path) -> None:
    said: list[str] = []
    for number, act in enumerate(("run", "sit", "walk", "run")):
        record(tmp_path / "ann" / f"{number}.csv", 40, act, day=[["mon", "tue"][number // 2]] * 40)
    reading = Reading(window=4, target="act", split_by="day")
    source = signals(str(tmp_path), reading, said.append)
    assert said == []
    assert source.units is not None
    assert np.bincount(source.units).tolist() == [20, 20]
    assert source.units_by == "day"
    with pytest.raises(UserError, match=r"data\.split_by: .* has no column 'week'"):
        signals(str(tmp_path), Reading(window=4, target="act", split_by="week"))


def test_words_are_no_target_of_a_regression(tmp_path: Path) -> None:
    (tmp_path / "ann.csv").write_text("x,what\n" + "1,walk\n2,run\n" * 10)
    reading = Reading(task="regression", target="what", window=4)
    with pytest.raises(UserError, match="the target holds 'walk', which is no number"):
        signals(str(tmp_path), reading)


@pytest.mark.parametrize(
    "name",
    [
        *("timestamp_ns", "Time (s)", "time_ms", "t_sec", "t [ms]", "Clock"),
        *("Time_Stamp", "timestamp (µs)", "unix_time", "date time", "Elapsed Time (min)"),
    ],
)
def test_a_clock_by_another_name_is_no_channel_and_told(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    for act in ("sit", "walk"):
        record(tmp_path / "ann" / f"{act}.csv", 8, act, **{name: [f"{k**2}" for k in range(8)]})
    source = signals(str(tmp_path), Reading(window=4, target="act"), said.append)
    assert source.inputs.shape[1:] == (2, 4)
    told = f"column {name} tells when, so that it is no channel; data.columns names channels"
    assert said[0] == told
    said.clear()
    for columns in (["x", name], ["x", "y"]):
        asked = Reading(window=4, target="act", columns=columns)
        assert signals(str(tmp_path), asked, said.append).inputs.shape[1:] == (2, 4)
    assert told not in said


@pytest.mark.parametrize("name", ["t", "t_min", "ts", "temperature", "reaction_time", "timer"])
def test_what_may_be_measured_is_a_channel(tmp_path: Path, name: str) -> None:
    for act in ("sit", "walk"):
        record(tmp_path / "ann" / f"{act}.csv", 8, act, **{name: [f"{k**2}" for k in range(8)]})
    assert signals(str(tmp_path), Reading(window=4, target="act")).inputs.shape[1:] == (3, 4)


def test_a_channel_that_rises_steadily_in_every_recording_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    late = {"sit": 1_600_000_000_000, "walk": 1_600_000_090_000}
    for act, start in late.items():
        record(
            tmp_path / "ann" / f"{act}.csv",
            8,
            act,
            moment=[str(start + 20 * k) for k in range(8)],
            height=[str(k if act == "sit" else 8 - k) for k in range(8)],
        )
    source = signals(str(tmp_path), Reading(window=4, target="act"), said.append)
    assert source.inputs.shape[1:] == (4, 4)
    assert [text for text in said if "rises" in text] == [
        "column moment: rises by the same step from row to row in every recording, as clocks do, "
        "and it is a channel; data.ignore leaves it out"
    ]


def test_rows_of_people_that_are_mixed_are_put_together(tmp_path: Path) -> None:
    said: list[str] = []
    who, acts = ["ann", "ben"] * 8 + ["ann"] * 4, ["sit"] * 8 + ["walk"] * 12
    record(tmp_path / "all.csv", 20, act=acts, user=who)
    reading = Reading(window=4, target="act", site="user")
    source = signals(str(tmp_path / "all.csv"), reading, said.append)
    assert owned(source) == {"ann": [0, 8, 16], "ben": [1, 9]}
    assert source.inputs[0, 0].tolist() == [0, 2, 4, 6]
    assert said[0].startswith(
        "all.csv: the rows of ann, ben are scattered over 17 places, and are put together in their "
        "order; sort the file"
    )


def test_a_person_who_comes_back_has_several_recordings(tmp_path: Path) -> None:
    said: list[str] = []
    who = ["ann"] * 6 + ["ben"] * 6 + ["ann"] * 5 + ["ben"] * 5 + ["ann"] * 2
    record(tmp_path / "all.csv", 24, act=["sit"] * 12 + ["walk"] * 12, user=who)
    reading = Reading(window=4, target="act", site="user")
    source = signals(str(tmp_path / "all.csv"), reading, said.append)
    assert owned(source) == {"ann": [0, 12], "ben": [6, 17]}
    assert not [text for text in said if "scattered" in text]


def test_files_with_other_channels_are_named_with_their_folders(tmp_path: Path) -> None:
    for person, channels in (("ann", "x,y,act"), ("ben", "y,x,act")):
        (tmp_path / person).mkdir()
        (tmp_path / person / "r.csv").write_text("\n".join([channels, *["1,2,sit"] * 4]))
    wrong = r"ben/r\.csv has the channels y, x, and ann/r\.csv x, y; data\.columns names them in"
    with pytest.raises(UserError, match=wrong):
        signals(str(tmp_path), Reading(window=2, target="act"))
    (tmp_path / "ben" / "r.csv").write_text("\n".join(["y,z,act", *["1,2,sit"] * 4]))
    with pytest.raises(UserError, match=r"ben/r\.csv has the channels y, z, and ann/r\.csv x, y$"):
        signals(str(tmp_path), Reading(window=2, target="act"))


def test_a_channel_that_is_empty_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    for act in ("sit", "walk"):
        record(tmp_path / "ann" / f"{act}.csv", 8, act, z=[""] * 8)
    signals(str(tmp_path), Reading(window=4, target="act"), said.append)
    assert said[-1] == "channel z: never measured, which tells a model nothing"


def test_the_positive_of_recordings_is_as_strict_as_that_of_tables(tmp_path: Path) -> None:
    said: list[str] = []
    for act in ("run", "sit", "walk"):
        record(tmp_path / "ann" / f"{act}.csv", 8, act=[act] * 7 + ["Run" if act == "sit" else act])
    reading = Reading(task="binary", window=4, target="act", positive="sit")
    source = signals(str(tmp_path), reading, said.append)
    assert source.class_names == ["not sit", "sit"]
    assert (
        "act: 'run' (2 windows) and 'walk' (2 windows) count as 'not sit' (data.positive is 'sit')"
    ) in said
    reading = Reading(task="binary", window=4, target="act", positive="run")
    with pytest.raises(UserError, match=r"'act' is 'Run' in 1 row, the first in sit\.csv, line 9"):
        signals(str(tmp_path), reading)
