"""Trackers are told what rounds.jsonl holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Settings

import fedkf
from fedkf.core.errors import UserError
from fedkf.core.records import Round
from fedkf.runs.trackers import scalars

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
tags = events.Tags()["scalars"]
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags}))
"""


def logged(folder: Path) -> dict[str, list[list[float]]]:
    """As TensorBoard itself reads it, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder / "tensorboard")],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, list[list[float]]] = json.loads(done.stdout)
    return result


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_holds_every_round_once_also_after_resuming(
    settings: Settings, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    fedkf.run(settings, rounds=2, out=tmp_path / "run", log="tensorboard")
    result = fedkf.run(settings, rounds=4, out=tmp_path / "run", resume=True, log="tensorboard")
    found = logged(result.folder)
    for readout in ("aca", "oca"):
        for metric in ("amp", "fm", "wlp"):
            wanted = [[r["round"], r["readouts"][readout][metric]] for r in result.history]
            assert found[f"{readout}/{metric}"] == [[n, pytest.approx(v)] for n, v in wanted]


class Diary(fedkf.Observer):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def round_started(self, round: int, active: Any) -> None:
        self.told.append(("round", round, len(active)))

    def client_finished(self, reply: Any) -> None:
        self.told.append("client")

    def round_finished(self, record: Round) -> None:
        self.told.append(dict(scalars(record)))

    def run_ended(self) -> None:
        self.told.append("end")


def test_an_observer_is_told_of_rounds_clients_and_the_end(settings: Settings) -> None:
    diary = Diary()
    result = fedkf.run(settings, rounds=1, algorithm="fedavg", observers=[diary])
    assert diary.told[0] == ("round", 1, 3)
    assert diary.told.count("client") == 3
    assert diary.told[-2]["oca/wlp"] == result.summary["readouts"]["oca"]["wlp"]
    assert diary.told[-1] == "end"


def test_what_is_no_observer_is_refused(settings: Settings) -> None:
    with pytest.raises(UserError, match="observers holds <class"):
        fedkf.run(settings, observers=[Diary])  # type: ignore[list-item]


class Failing(Diary):
    def round_finished(self, record: Round) -> None:
        raise KeyboardInterrupt


def test_the_end_is_told_also_when_a_run_is_stopped(settings: Settings) -> None:
    diary = Failing()
    with pytest.raises(KeyboardInterrupt):
        fedkf.run(settings, observers=[diary])
    assert diary.told[-1] == "end"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tensorbord", "did you mean 'tensorboard'?"),
        ("nosuch:Thing", "cannot be imported"),
        ("builtins:dict", "raised TypeError"),
        ("test_trackers:nothing", "returned a NoneType"),
    ],
)
def test_a_tracker_that_cannot_be_had_is_told_before_training(
    settings: Settings, name: str, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        fedkf.run(settings, log=name)
    assert sentence in str(caught.value)


def nothing(folder: Path, settings: Any) -> None: ...


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_numbers_settings_and_files_also_after_resuming(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="the extra mlflow is not here")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    common: dict[str, Any] = {"algorithm": "fedavg", "log": "mlflow"}
    fedkf.run(settings, rounds=1, out=tmp_path / "run", **common)
    result = fedkf.run(settings, rounds=2, out=tmp_path / "run", resume=True, **common)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "run" / "mlruns").as_uri())
    name = (tmp_path / "run" / "mlflow.id").read_text()
    told = client.get_metric_history(name, "oca/amp")
    wanted = [[r["round"], r["readouts"]["oca"]["amp"]] for r in result.history]
    assert [[m.step, pytest.approx(m.value)] for m in told] == wanted
    about = client.get_run(name)
    assert about.info.status == "FINISHED"
    assert about.data.params["algorithm.name"] == "fedavg"
    assert "summary.json" in {f.path for f in client.list_artifacts(name)}
    assert "models/oca.safetensors" in {f.path for f in client.list_artifacts(name, "models")}


@pytest.mark.filterwarnings("ignore")
def test_wandb_writes_an_offline_run_with_numbers_and_files(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not here")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fedkf.run(settings, rounds=1, out=tmp_path / "run", algorithm="fedavg", log="wandb")
    wandb.teardown()  # its process writes behind ours
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    for word in ("oca/amp", "algorithm.name", "models/oca.safetensors"):
        assert word.encode() in content
