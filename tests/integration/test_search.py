"""Searches as they run: equal budgets, killed, failed, and what the comparison makes of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Outcome

from fedkf.runs import suite
from fedkf.runs.experiment import execute
from fedkf.runs.search import run_search
from fedkf.runs.space import Search, read_search
from fedkf.runs.suite import Plan
from fedkf.runs.sweep import Watcher

Cli = Callable[..., Outcome]


@pytest.fixture
def path(npz: Path, tmp_path: Path) -> Path:
    """Two algorithms, two seeds, one round; three trials each."""
    content = {
        "base": {
            "data": {"source": "npz", "path": str(npz), "clients": 4, "alpha": 0.5},
            "model.name": "mlp",
            "federation": {"rounds": 1, "fraction": 0.5, "local_epochs": 2, "batch_size": 8},
        },
        "grid": {"algorithm.name": ["fedavg", "fedprox"], "federation.seed": [0, 1]},
        "search": {
            "trials": 3,
            "seeds": [5],
            "common": {"federation.lr": {"low": 0.001, "high": 1, "log": True}},
            "space": {"fedprox": {"algorithm.mu": [0.1, 0.2, 0.3]}},
        },
    }
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def changed(path: Path, **search: Any) -> Path:
    """The suite with another search; None drops a key."""
    content = yaml.safe_load(path.read_text())
    merged = {**content["search"], **search}
    content["search"] = {key: value for key, value in merged.items() if value is not None}
    path.write_text(yaml.safe_dump(content))
    return path


def asked(path: Path) -> Search:
    found = read_search(suite.read(path))
    assert found is not None
    return found


def studies(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "search.json").read_text())["studies"]
    return found


def without_times(folder: Path) -> dict[str, Any]:
    found = studies(folder)
    for study in found.values():
        for trial in study["trials"]:
            del trial["seconds"]
    return found


class Listening(Watcher):
    """Writes every round down, in a file that outlives the process; may be killed at the third."""

    def __init__(self, log: Path, killed: bool = False) -> None:
        self.log, self.killed = log, killed

    def round_finished(self, plan: Plan, record: dict[str, Any]) -> None:
        seeds = plan.config.federation.seed, plan.config.data.seed
        with self.log.open("a") as file:
            file.write(json.dumps([plan.name, *seeds]) + "\n")

    def run_finished(self, plan: Plan) -> None:
        if self.killed and len(self.log.read_text().splitlines()) >= 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def test_a_search_killed_and_resumed_is_the_same_search(path: Path, tmp_path: Path) -> None:
    search, ears = asked(path), Listening(tmp_path / "whole.log")
    found, failures = run_search(search, tmp_path / "whole", jobs=2, watcher=ears)
    assert not failures
    assert {name: len(trials) for name, trials in found.items()} == {"fedavg": 3, "fedprox": 3}
    assert sorted(ears.lines()) == sorted(
        [f"{name}/trial-{number}", 5, 5] for name in ("fedavg", "fedprox") for number in (1, 2, 3)
    )
    ears = Listening(tmp_path / "killed.log", killed=True)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            run_search(search, tmp_path / "killed", jobs=1, watcher=ears)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert 0 < sum(len(study["trials"]) for study in studies(tmp_path / "killed").values()) < 6
    ears.killed = False
    run_search(search, tmp_path / "killed", jobs=1, watcher=ears)
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    names = [line[0] for line in ears.lines()]
    assert len(names) == len(set(names)) == 6  # none was run twice
    assert not (tmp_path / "killed" / "search").exists()


def test_the_comparison_uses_the_best_setting(path: Path, tmp_path: Path, cli: Cli) -> None:
    changed(path, objective={"metric": "fm", "readout": "aca"}, common=None, seeds=[7, 8])
    folder, kept = tmp_path / "runs", tmp_path / "kept"
    done = cli("sweep", path, "--search", "--out", folder, "--records", kept, "--jobs", 2)
    assert done.code == 0, done.err
    study = studies(folder)["fedprox"]
    tried = {trial["parameters"]["algorithm.mu"]: trial["value"] for trial in study["trials"]}
    assert sorted(tried) == [0.1, 0.2, 0.3]
    for trial in study["trials"]:  # the mean over both seeds of the search
        a, b = (scores["aca"]["fm"] for scores in trial["readouts"])
        assert trial["value"] == pytest.approx((a + b) / 2)
    winner = min(tried, key=lambda mu: tried[mu])
    number = study["best"]
    assert study["trials"][number - 1]["parameters"] == {"algorithm.mu": winner}
    for seed in (0, 1):
        run = folder / f"fedprox,seed={seed},trial={number}"
        config = yaml.safe_load((run / "config.yaml").read_text())
        assert config["algorithm"] == {"name": "fedprox", "mu": winner}
        assert (config["federation"]["seed"], config["data"]["seed"]) == (seed, 0)
    assert len(studies(folder)["fedavg"]["trials"]) == 1
    assert "| FedAvg | nothing searched | 0 |" in (folder / "search.md").read_text()
    assert "suite, tuned" in (folder / "table.md").read_text()
    for name in ("search.json", "search.md"):
        assert (kept / name).read_bytes() == (folder / name).read_bytes()
    # With the records alone nothing is searched or run again.
    again = cli("sweep", path, "--search", "--out", tmp_path / "new", "--records", kept)
    assert again.code == 0, again.err
    assert [p.name for p in (tmp_path / "new").iterdir() if p.is_dir()] == []
    # Without --search the grid runs as it stands, which is said.
    plain = cli("sweep", path, "--out", folder, "--quiet")
    assert (plain.code, plain.err.count("\n")) == (0, 1)
    assert "nothing is tuned" in plain.err
    assert "mu: 0.01 " in (folder / "fedprox,seed=0" / "config.yaml").read_text()


def test_settings_that_diverge_count_as_trials(path: Path, tmp_path: Path, cli: Cli) -> None:
    changed(path, seeds=None, space={}, common={"federation.lr": [1e30, 0.05]})
    done = cli("sweep", path, "--search", "--out", tmp_path / "runs", "--jobs", 2, "--quiet")
    assert done.code == 0, done.err
    for study in studies(tmp_path / "runs").values():
        first, second = study["trials"]
        assert (first["value"], study["best"]) == (None, 2)
        assert "usable uploads" in first["failed"]
        assert second["value"] == second["readouts"][0]["oca"]["amp"]
    changed(path, common={"federation.lr": [1e30, 2e30]})
    done = cli("sweep", path, "--search", "--out", tmp_path / "all", "--jobs", 2, "--quiet")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "no trial of fedavg succeeded" in done.err


DIES = """
import os
from fedkf import Algorithm

class Dies(Algorithm):
    name = "dies"

    def local_update(self, client, down):
        if client.task.training.lr == 0.5 and not os.path.exists("mended"):
            os._exit(3)
        return super().local_update(client, down)
"""


def test_what_the_world_broke_is_no_trial_and_is_tried_again(
    path: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying.py").write_text(DIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    changed(path, seeds=None, space={}, common={"federation.lr": [0.05, 0.5]})
    path.write_text(path.read_text().replace("- fedavg", "- dying:Dies"))
    done = cli("sweep", path, "--search", "--out", "runs", "--jobs", 1, "--quiet")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "dying.Dies/trial-2 failed: its process ended with 3" in done.err
    assert [len(study["trials"]) for study in studies(tmp_path / "runs").values()] == [1, 2]
    (tmp_path / "mended").touch()
    done = cli("sweep", path, "--search", "--out", "runs", "--jobs", 1, "--quiet")
    assert done.code == 0, done.err
    assert [len(study["trials"]) for study in studies(tmp_path / "runs").values()] == [2, 2]


def test_a_run_that_ended_just_before_a_kill_is_not_repeated(path: Path, tmp_path: Path) -> None:
    changed(path, seeds=[5], trials=1)
    search = asked(path)
    study, folder = search.studies[0], tmp_path / "runs" / "search"
    execute(search.config(study, study.own, 5), folder / "fedavg" / "trial-1")
    other = search.config(search.studies[1], {"federation.lr": 0.5}, 5)
    execute(other, folder / "fedprox" / "trial-1")  # left by another search: it goes
    ears = Listening(tmp_path / "log")
    found, _ = run_search(search, tmp_path / "runs", jobs=1, watcher=ears)
    assert [name for name, *_ in ears.lines()] == ["fedprox/trial-1"]
    assert found["fedavg"][0].value is not None


def test_a_setting_of_the_suite_that_is_refused_stops_the_search(
    path: Path, tmp_path: Path, cli: Cli
) -> None:
    changed(path, seeds=None, space={})
    path.write_text(path.read_text().replace("- fedavg", "- feddf"))
    done = cli("sweep", path, "--search", "--out", tmp_path / "runs", "--jobs", 1, "--quiet")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "data.proxy" in done.err


def test_mistakes_are_sentences(
    path: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "optuna", None)
        done = cli("sweep", path, "--search", "--out", tmp_path / "runs")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "--search needs Optuna: pip install 'fedkf[search]'" in done.err
    changed(path, seeds=[1])
    assert "1 is a seed of the comparison" in cli("sweep", path, "--search").err
    content = yaml.safe_load(path.read_text())
    del content["search"]
    path.write_text(yaml.safe_dump(content))
    done = cli("sweep", path, "--search", "--out", tmp_path / "runs")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "has no `search:`" in done.err
    assert os.listdir(tmp_path) == ["suite.yaml"]
