"""`fedkf reproduce sites`: which runs it plans, what it leaves out, and the table, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import score

from fedkf.core.errors import UserError
from fedkf.paper.scales import choose
from fedkf.paper.sites import FEDERATIONS, METHODS, SCALES, site_plans, tables, those_here
from fedkf.runs.collect import Group
from fedkf.runs.config import read, resolve
from fedkf.runs.suite import Finished

Cli = Callable[..., tuple[int, str, str]]


def test_every_method_meets_every_federation_with_three_seeds() -> None:
    plans = site_plans(choose("paper", scales=SCALES))
    assert len({plan.name for plan in plans}) == len(FEDERATIONS) * len(METHODS) * 3
    assert all(plan.config.data.partition == "natural" for plan in plans)
    # Who trains alone, or has personal models anyway, needs none made.
    personal = {p.config.algorithm.name: p.config.evaluation.personal for p in plans}
    assert personal["local"] == "none"
    assert personal["fedavg"] == personal["fedkf+"] == "interpolate"


def test_what_is_not_here_is_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path))
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    plans = site_plans(choose("smoke", scales=SCALES))
    with pytest.raises(UserError, match=r"none of heart, .* is here"):
        those_here(plans)
    (tmp_path / "sites" / "pacs32").mkdir(parents=True)
    (tmp_path / "sites" / "pacs32" / "pacs32.npz").touch()
    kept, sentences = those_here(plans)
    assert {plan.config.data.source for plan in kept} == {"pacs"}
    assert len(sentences) == len(FEDERATIONS) - 1
    assert "heart is not here, so it is left out: put processed.cleveland.data" in sentences[0]


def finished(folder: Path, name: str, seed: int, amps: Mapping[str, float]) -> Finished:
    """A record of one round that took three seconds, with these accuracies of two clients."""
    path = folder / f"{name}-{seed}"
    path.mkdir()
    readouts = {readout: score([amp, amp]) for readout, amp in amps.items()}
    about: dict[str, Any] = {"algorithm": name, "seed": seed, "rounds": 1, "readouts": readouts}
    about["seconds"] = {"train": 2.0, "aggregate": 1.0}
    (path / "summary.json").write_text(json.dumps(about))
    (path / "rounds.jsonl").write_text(json.dumps({"round": 1, "readouts": readouts}) + "\n")
    overrides = {"algorithm.name": name, "federation.seed": seed}
    return Finished(path, resolve(read("har")[0], overrides))


def test_gains_are_paired_and_personal_models_held_against_the_shared(tmp_path: Path) -> None:
    seeds = {0: 0.3, 1: 0.5, 2: 0.7}
    made: dict[str, Callable[[float, int], dict[str, float]]] = {
        "local": lambda amp, seed: {"aca": amp, "oca": amp},
        "fedavg": lambda amp, seed: {"aca": amp, "oca": amp, "personal": amp + 0.1},
        "fedkf": lambda amp, seed: {"aca": amp, "oca": amp + 0.01 * (seed + 1)},
    }
    groups = [
        Group(
            {"config": "har", "algorithm.name": name},
            [finished(tmp_path, name, seed, found(amp, seed)) for seed, amp in seeds.items()],
        )
        for name, found in made.items()
    ]
    (table,) = tables(groups, choose("paper", scales=SCALES))
    assert list(table.rows) == [
        "training alone",
        "FedAvg (ACA)",
        "FedAvg (OCA)",
        "FedAvg (PERSONAL)",
        "FedKF (ACA)",
        "FedKF (OCA)",
    ]
    place, amp, wlp, gain, time = range(5)
    assert table.rows["FedKF (OCA)"][gain].text == "+2.00 [-0.48, 4.48]"  # 4.3027 / √3 = 2.484
    assert table.rows["FedAvg (PERSONAL)"][gain].text == "+10.00 [10.00, 10.00] *"
    assert table.rows["FedAvg (OCA)"][gain].values == ()
    assert table.rows["FedAvg (PERSONAL)"][place].values == (1.0,)
    assert table.rows["FedKF (OCA)"][place].values == (2.0,)
    assert table.rows["FedKF (OCA)"][amp].mean == pytest.approx(0.52)
    assert table.rows["FedKF (OCA)"][wlp].mean == pytest.approx(0.52)
    assert table.rows["FedKF (OCA)"][time].values == (3.0, 3.0, 3.0)


CONFIG = """
data: {{source: npz, path: {path}, partition: natural}}
model: {{name: mlp}}
federation: {{rounds: 1, fraction: 0.5, local_epochs: 1}}
"""


def test_the_table_of_a_federation_of_ones_own(tmp_path: Path, npz: Path, cli: Cli) -> None:
    with np.load(npz) as arrays:
        np.savez(tmp_path / "own.npz", **arrays, client=np.arange(90) % 4)
    config = tmp_path / "own.yaml"
    config.write_text(CONFIG.format(path=tmp_path / "own.npz"))
    asked = ("reproduce", "sites", "--data", config, "--out", tmp_path / "runs", "--quiet")
    code, text, error = cli(*asked, "--algorithm", "fedavg", "--algorithm", "local")
    assert code == 0, error
    assert "FedAvg (PERSONAL)" in text
    again = cli(*asked, "--algorithm", "fedavg", "--algorithm", "local", "--existing")
    assert again[0] == 0
    assert again[1] == text
