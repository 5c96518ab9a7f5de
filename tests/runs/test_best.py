"""The best setting of each algorithm among runs, over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Settings

import fedkf
from fedkf.core.errors import UserError
from fedkf.runs.best import best


@pytest.fixture(scope="module")
def sweep(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from conftest import tiny

    folder = tmp_path_factory.mktemp("sweep")
    base: Settings = tiny(npz)
    for clients in (3, 6):
        for algorithm, lr, seed in (
            *(("fedavg", lr, seed) for lr in (0.0001, 0.05) for seed in (0, 1)),
            *(("fedprox", 0.05, seed) for seed in (0, 1)),
        ):
            settings: dict[str, Any] = {**base, "algorithm": algorithm}
            settings["data"] = {**base["data"], "clients": clients}
            name = f"{algorithm}-{clients}-{lr}-{seed}"
            fedkf.run(settings, rounds=2, lr=lr, seed=seed, out=folder / name)
    return folder


def final(path: Path) -> float:
    return float(json.loads((path / "summary.json").read_text())["readouts"]["oca"]["amp"])


def test_each_division_and_algorithm_has_its_best(sweep: Path) -> None:
    found = best([sweep])
    assert [s.data for s in found] == [{"data.clients": n} for n in (3, 3, 6, 6)]
    for setting in found:
        clients, name = setting.data["data.clients"], setting.algorithm
        rates = (0.0001, 0.05) if name == "fedavg" else (0.05,)
        runs = {
            lr: [final(sweep / f"{name}-{clients}-{lr}-{seed}") for seed in (0, 1)] for lr in rates
        }
        winner = max(runs, key=lambda lr: sum(runs[lr]))
        assert sorted(setting.values) == sorted(runs[winner])
        keys = {"federation.lr": winner} if name == "fedavg" else {}
        assert (dict(setting.keys), setting.tried) == (keys, len(rates))
    assert found[0].mean >= found[1].mean
    lower = best([sweep], metric="fm")
    assert lower[0].mean <= lower[1].mean


def test_the_command_tells_it(sweep: Path, cli: Callable[..., Outcome], tmp_path: Path) -> None:
    done = cli("best", sweep)
    assert done.code == 0
    assert "clients = 3" in done.out
    assert "lr=0.0" in done.out
    rows = json.loads(cli("best", sweep, "--json").out)
    assert [row["tried"] for row in rows if row["algorithm"] == "fedavg"] == [2, 2]
    assert len(rows[0]["runs"]) == 2
    empty = cli("best", tmp_path)
    assert empty.code == 2
    assert "no finished run" in empty.err
    with pytest.raises(UserError, match="no metric 'amb'; did you mean 'amp'"):
        best([sweep], metric="amb")
    with pytest.raises(UserError, match="no readout 'oac'"):
        best([sweep], "oac")
