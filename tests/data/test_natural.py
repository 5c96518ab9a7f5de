"""Data sets that come divided by nature, as their publishers have them but tiny."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.natural import NATURAL
from fedkf.data.reading import Reading
from fedkf.data.source import Source
from fedkf.runs.config import presets, read, resolve


def heart(folder: Path) -> None:
    random = np.random.default_rng(0)
    for place in ("cleveland", "hungarian", "switzerland", "va"):
        rows = []
        for k in range(20):
            cells = [
                40 + k,
                k % 2,
                k % 4 + 1,
                130,
                200,
                0,
                k % 3,
                150,
                0,
                round(random.random(), 1),
            ]
            rows.append([*cells, "?", "?", "?", k % 5])
        rows[3][4] = "?"
        text = "\n".join(",".join(map(str, row)) for row in rows)
        (folder / f"processed.{place}.data").write_text(text + "\n")


def tcga(folder: Path) -> None:
    names = ["pid", *(f"x{k}" for k in range(39)), "E", "T"]
    rows = [[f"P{k}", *range(k, k + 39), k % 2, 10.0 * k] for k in range(6)]
    text = [",".join(map(str, row)) for row in [names, *rows]]
    (folder / "brca.csv").write_text("\n".join(text))
    folds = [
        f"P{k},{'test' if k > 3 else 'train'},{'test' if k > 3 else 'train'}_{k % 2}"
        for k in range(5)
    ]  # P5 is in no fold
    (folder / "train_test_split.csv").write_text("\n".join(["pid,fold,fold2", *folds]))


def arrays(file: str, **content: Any) -> Any:
    return lambda folder: np.savez(folder / file, **content)


def audiomnist(folder: Path) -> None:
    people = np.array([0, 0, 1])
    arrays("audiomnist.npz", images=np.zeros((3, 4, 4), np.uint8), labels=people, client=people)(
        folder
    )
    (folder / "speakers.json").write_text(json.dumps({"01": {}, "02": {}}))


WARDS = np.array([0, 1, 0])
FILES: dict[str, tuple[str, Any]] = {
    "heart": ("heart_disease", heart),
    "tcga": ("tcga_brca", tcga),
    "har": (
        "uci_har",
        arrays(
            "uci_har.npz",
            signals=np.full((3, 9, 4), 4096, np.int16),
            scale=np.array(4096),
            labels=WARDS,
            client=WARDS,
            split=np.array(["train", "train", "test"]),
            label_names=np.array(["SITTING", "WALKING_UPSTAIRS"]),
        ),
    ),
    "ecg": (
        "mitbih",
        arrays(
            "mitbih.npz",
            signals=np.full((24, 4), 500, np.int16),
            labels=np.arange(24) % 2,
            client=np.repeat([0, 1, 2], [12, 6, 6]),
            client_names=np.array(["200", "201", "202"]),
            label_names=np.array(["N", "V"]),
        ),
    ),
    "icu": (
        "physionet2012",
        arrays(
            "physionet2012.npz",
            hourly=np.array([[[1, np.nan], [3, np.nan]], [[5, 2], [5, 4]], [[0, 0], [0, 0]]]),
            static=np.array([[50, np.nan], [60, np.nan], [70, np.nan]]),
            labels=WARDS,
            client=WARDS,
            client_names=np.array(["medical", "surgical"]),
        ),
    ),
    "audiomnist": ("audiomnist", audiomnist),
    "pacs": (
        "pacs32",
        arrays("pacs32.npz", images=np.zeros((3, 4, 4, 3), np.uint8), labels=WARDS, client=WARDS),
    ),
}
TASKS = {"heart": "binary", "tcga": "survival", "icu": "binary"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder, write in FILES.values():
        (tmp_path / "sites" / folder).mkdir(parents=True)
        write(tmp_path / "sites" / folder)
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path))
    return tmp_path


def load(name: str) -> Source:
    return NATURAL[name].load(None, Reading(task=TASKS.get(name, "classification")), print)


def test_hearts_are_those_without_missing_values(place: Path) -> None:
    source = load("heart")
    assert source.inputs.shape == (4 * 19, 13)
    assert source.owner_names == ["cleveland", "hungarian", "switzerland", "va"]
    assert source.class_names == ["healthy", "ill"]
    assert source.tested is not None
    assert source.tested.sum() == 4 * 7  # a third of 19, rounded up


def test_regions_and_test_patients_are_the_published_ones(place: Path) -> None:
    source = load("tcga")
    assert source.inputs.shape == (5, 39)
    assert source.labels.tolist() == [[10.0 * k, k % 2] for k in range(5)]
    assert source.owner_names == ["region 0", "region 1"]
    assert source.tested is not None
    assert source.tested.tolist() == [False] * 4 + [True]


def test_two_records_of_one_patient_are_one_client(place: Path) -> None:
    source = load("ecg")
    assert source.owner_names == ["record 200", "record 201 and 202"]
    assert source.owners is not None
    assert np.bincount(source.owners).tolist() == [12, 12]
    assert source.units is not None
    assert source.units.tolist() == [1] * 10 + [2] * 2 + [3] * 6 + [4] * 6
    assert (source.inputs == 0.5).all()


def test_a_stay_is_its_measurements_mean_lowest_highest_and_whether_there_are_any(
    place: Path,
) -> None:
    nan = np.nan
    expected = [[50, 2, nan, 1, nan, 3, nan, 1, 0], [60, 5, 3, 5, 2, 5, 4, 1, 1]]
    np.testing.assert_array_equal(load("icu").inputs[:2], np.array(expected, np.float32))


def test_people_and_things_have_names(place: Path) -> None:
    har = load("har")
    assert har.owner_names == ["person 1", "person 2"]
    assert har.class_names == ["sitting", "walking upstairs"]
    assert (har.inputs == 1).all()
    assert load("audiomnist").owner_names == ["speaker 01", "speaker 02"]
    assert load("pacs").inputs.shape == (3, 3, 4, 4)


@pytest.mark.parametrize("name", NATURAL)
def test_what_is_not_here_is_said_with_where_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path))
    with pytest.raises(UserError, match=rf"no {name} here in {tmp_path}; put .*FEDKF_DATA"):
        NATURAL[name].load(str(tmp_path), Reading(), print)


@pytest.mark.parametrize("name", NATURAL)
def test_each_has_a_preset_of_its_own(name: str, place: Path) -> None:
    assert name in presets()
    config = resolve(read(name)[0])
    assert (config.data.source, config.data.partition) == (name, "natural")
    assert load(name).task == config.data.task
