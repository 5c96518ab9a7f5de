"""New rows of countries that write numbers otherwise: read as those of the training were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Outcome
from test_rows import train

import fedkf
from fedkf.core.errors import UserError
from fedkf.runs.store import RunFolder

FOREIGN = "plat;lac;ill"


def again(place: Path, out: Path, rounds: int = 3, resume: bool = False, **data: Any) -> Any:
    return train(place, out, rounds, resume, site=None, columns=None, clients=2, **data)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Patients whose numbers have thousands, which only the decimals of another column show."""
    place = tmp_path_factory.mktemp("foreign")
    lines = [f"{1 + k % 2}.{100 + k};{k % 9},{k % 5}4;{k % 2}" for k in range(40)]
    (place / "all.csv").write_text("\n".join([FOREIGN, *lines]))
    (place / "few.csv").write_text("\n".join([FOREIGN, "1.566;4;1", "2.140;3;1"]))
    (place / "more.csv").write_text("\n".join([FOREIGN, "1.566;4,00;1", "2.140;3;1"]))
    again(place, place / "run")
    return place


def test_new_rows_are_written_as_those_of_the_training_were(
    foreign: Path, cli: Callable[..., Outcome]
) -> None:
    model = fedkf.load(foreign / "run")
    wanted = model.predict([{"plat": 1566, "lac": 4}, {"plat": 2140, "lac": 3}])
    assert {name for name, _ in wanted} == {"0", "1"}
    assert model.predict(foreign / "few.csv") == wanted
    assert model.predict(foreign / "more.csv") == wanted
    told = cli("evaluate", str(foreign / "run"), "--data", str(foreign / "few.csv"), "--json")
    assert json.loads(told.out)["amp"] == 0.5
    fedkf.export(foreign / "run", foreign / "home", ["safetensors"])
    assert fedkf.load(foreign / "home").predict(foreign / "few.csv") == wanted


def test_how_numbers_are_written_is_settled_and_kept(foreign: Path) -> None:
    config = RunFolder(foreign / "run").config()
    assert config is not None
    assert config.data.decimal == "comma"
    card = json.loads((foreign / "run" / "models" / "model.json").read_text())
    assert card["reading"]["decimal"] == "comma"
    again(foreign, foreign / "told", decimal="comma")
    weights = [fedkf.load(foreign / name).state_dict() for name in ("run", "told")]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_run_is_resumed_whether_or_not_its_configuration_says_how_numbers_are_written(
    foreign: Path, tmp_path: Path
) -> None:
    shutil.copytree(foreign / "run", tmp_path / "run")
    again(foreign, tmp_path / "run", rounds=4, resume=True)
    text = (tmp_path / "run" / "config.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("  decimal:")]
    assert len(lines) < len(text.splitlines())
    (tmp_path / "run" / "config.yaml").write_text("\n".join(lines))  # as of an earlier version
    again(foreign, tmp_path / "run", rounds=5, resume=True)
    with pytest.raises(UserError, match=r"data\.decimal is 'point' but the run began with 'comma'"):
        again(foreign, tmp_path / "run", rounds=6, resume=True, decimal="point")


def test_a_model_of_before_there_was_the_key_reads_files_by_themselves(
    foreign: Path, tmp_path: Path
) -> None:
    shutil.copytree(foreign / "run", tmp_path / "run")
    file = tmp_path / "run" / "models" / "model.json"
    card = json.loads(file.read_text())
    del card["reading"]["decimal"]
    file.write_text(json.dumps(card))
    rows = [{"plat": 1566, "lac": 4}, {"plat": 2140, "lac": 3}]
    model = fedkf.load(tmp_path / "run")
    assert model.predict(foreign / "more.csv") == model.predict(rows)


def test_new_rows_that_are_written_otherwise_are_refused(
    foreign: Path, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    path, run = tmp_path / "new.csv", str(foreign / "run")
    path.write_text("\n".join([FOREIGN, "1.566;4.5;1", "2.140;3.25;1"]))
    wrong = (
        "new.csv: the column 'lac' has numbers with a decimal point, and the model was trained on "
        "numbers with a decimal comma, so that nobody can know what 1.566 in 'plat' is; write all "
        "numbers with a decimal comma"
    )
    for command in (["predict", run, str(path)], ["evaluate", run, "--data", str(path)]):
        told = cli(*command)
        assert told.code == 2
        assert wrong in told.err
    path.write_text("\n".join([FOREIGN, "1566;4.5;1", "2140;3.25;1"]))  # nothing is in doubt
    rows = [{"plat": 1566, "lac": 4.5}, {"plat": 2140, "lac": 3.25}]
    model = fedkf.load(run)
    assert model.predict(path) == model.predict(rows)


def test_how_new_rows_were_read_is_told(foreign: Path, cli: Callable[..., Outcome]) -> None:
    told = cli("predict", str(foreign / "run"), str(foreign / "few.csv"), "--json")
    assert "points between thousands are left out of numbers: plat" in told.err
    assert len(json.loads(told.out)) == 2
