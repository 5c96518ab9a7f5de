"""Units: a target of any size is learned at the same pace, and told in the unit it came in."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

import fedkf
from fedkf.cli.app import app
from fedkf.core.objective import Regression
from fedkf.flower.own_data import at_site
from fedkf.flower.settings import incoming, outgoing
from fedkf.flower.site_file import Site
from fedkf.runs.config import resolve
from fedkf.runs.store import RunFolder

DATA = {"source": "table", "target": "power", "site": "station", "task": "regression"}
SMALL: dict[str, Any] = {"algorithm": "fedavg", "rounds": 6, "batch_size": 8}


def stations(folder: Path, unit: float, offset: float) -> Path:
    """Two stations, and one with three rows, whose power hangs on the wind."""
    random = np.random.default_rng(0)
    rows = []
    for name, count in (("hill", 60), ("shore", 50), ("pond", 3)):
        for wind, sun in random.normal(size=(count, 2)):
            power = offset + unit * (2 * wind - sun + 0.1 * random.normal())
            rows.append([name, wind, sun, power])
    file = folder / "stations.csv"
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([["station", "wind", "sun", "power"], *rows])
    return file


def run(folder: Path, unit: float, offset: float, **more: Any) -> fedkf.Result:
    folder.mkdir()
    return trained(stations(folder, unit, offset), folder / "run", **more)


def trained(file: Path, out: Path, **more: Any) -> fedkf.Result:
    data = {**DATA, "path": str(file), **more.pop("data", {})}
    return fedkf.run(data=data, out=out, **{**SMALL, "workers": 0, **more})


def scored(result: fedkf.Result) -> dict[str, Any]:
    found: dict[str, Any] = result.summary["sites"]["oca"]["values"]
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> fedkf.Result:
    return run(tmp_path_factory.mktemp("units") / "large", 1e6, 5e7)


def test_millions_are_learned_as_ones_are(large: fedkf.Result, tmp_path: Path) -> None:
    small = run(tmp_path / "small", 1.0, 0.0)
    many, few = scored(large), scored(small)
    assert min(v for v in many["r2"] if v is not None) > 0.8
    assert many["r2"][0] == pytest.approx(few["r2"][0], abs=0.02)
    assert many["rmse"] == pytest.approx([1e6 * v for v in few["rmse"]], rel=0.05)


def test_what_is_taken_home_tells_the_targets_unit(large: fedkf.Result) -> None:
    folder = Path(large.folder)
    model = fedkf.load(folder)
    still = torch.zeros(1, 2)
    assert model.values(still).item() == pytest.approx(5e7, rel=0.05)
    assert model(still).item() == pytest.approx(model.values(still).item())
    fedkf.export(folder, folder / "home", ["safetensors"])
    assert fedkf.load(folder / "home").values(still).item() == model.values(still).item()
    wind, told = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([5.2e7, 4.8e7])
    found = large.evaluate({"new": torch.utils.data.TensorDataset(wind, told)})
    assert found["clients"][0]["metrics"]["rmse"] < 1.5e6


def test_the_agreed_unit_is_in_the_records(large: fedkf.Result) -> None:
    folder = Path(large.folder)
    config = RunFolder(folder).config()
    assert config is not None
    assert config.data.target_mean == pytest.approx(5e7, rel=0.05)
    assert config.data.target_std == pytest.approx(2.2e6, rel=0.3)
    ledger = json.loads((folder / "ledger.json").read_text())
    assert "input_statistics" in json.dumps(ledger)


def test_without_scaling_targets_stay_as_they_are(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", 1.0, 0.0, data={"scaling": "none"})
    card = json.loads((Path(plain.folder) / "models" / "model.json").read_text())
    assert "target" not in card


def test_a_resumed_run_keeps_its_unit(tmp_path: Path) -> None:
    short = run(tmp_path / "short", 1e6, 5e7, rounds=2)
    file, folder = tmp_path / "short" / "stations.csv", Path(short.folder)
    longer = trained(file, folder, rounds=3, resume=True)
    assert len(longer.rounds) == 3


def test_two_workers_give_the_same_bytes(large: fedkf.Result, tmp_path: Path) -> None:
    file = stations(tmp_path, 1e6, 5e7)
    other = trained(file, tmp_path / "run", workers=2)
    name = "models/oca.safetensors"
    assert (Path(other.folder) / name).read_bytes() == (Path(large.folder) / name).read_bytes()


def test_a_site_by_itself_never_makes_a_unit_of_its_own() -> None:
    config = resolve({"data": {"task": "regression"}})
    site = Site(name="north", coordinator="here:1")
    alone = at_site(site, incoming(outgoing(config))).data
    assert (alone.target_mean, alone.target_std) == (0.0, 1.0)
    told = config.model_copy(
        update={"data": config.data.model_copy(update={"target_mean": 3.0, "target_std": 2.0})}
    )
    given = at_site(site, incoming(outgoing(told))).data
    assert (given.target_mean, given.target_std) == (3.0, 2.0)


def test_an_unscaled_regression_is_what_it_was() -> None:
    outputs, targets = torch.randn(5, 1), torch.randn(5)
    plain = torch.nn.functional.mse_loss(outputs[:, 0], targets)
    assert torch.equal(Regression().loss(outputs, targets), plain)
    assert torch.equal(Regression().told(outputs), outputs)


def test_evaluate_and_personalize_speak_of_the_task(large: fedkf.Result) -> None:
    folder = str(large.folder)
    told = CliRunner().invoke(app, ["evaluate", folder])
    assert told.exit_code == 0, told.output
    assert "there is no shared one" not in told.output
    assert "accuracy" not in told.output
    found = fedkf.personalize(folder, workers=0)
    assert found["metric"] == "r2"
    assert found["clients"][0]["before"] == pytest.approx(scored(large)["r2"][0])
    assert found["clients"][1]["before"] is None  # a single test sample has no variance
    told = CliRunner().invoke(app, ["personalize", folder, "--workers", "0"])
    assert "R² of each client" in told.output


def test_a_single_site_a_round_is_told(tmp_path: Path) -> None:
    config = {"data": {**DATA, "path": str(stations(tmp_path, 1.0, 0.0))}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    short = ["--set", "federation.rounds=1", "--set", "algorithm.name=fedavg", "--workers", "0"]
    for fraction, expected in (("0.2", True), ("1.0", False)):
        out = ["--out", str(tmp_path / fraction), "--set", f"federation.fraction={fraction}"]
        told = CliRunner().invoke(app, ["run", str(tmp_path / "mine.yaml"), *short, *out])
        assert told.exit_code == 0, told.output
        assert ("only one of 3 sites trains in a round" in told.stderr) is expected
