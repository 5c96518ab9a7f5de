"""A run on disk: its files, its lock, and what survives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Settings, model_bytes
from flushes import flushes

import fedkf
from fedkf.core.errors import FedkfError, UserError
from fedkf.metrics import METRICS
from fedkf.runs.store import RunFolder, Writer


@pytest.fixture
def finished(settings: Settings, tmp_path: Path) -> Path:
    fedkf.run(settings, out=tmp_path / "run")
    return tmp_path / "run"


def test_a_run_leaves_the_files_of_the_contract(finished: Path) -> None:
    assert {p.name for p in finished.iterdir()} == {
        ".lock",
        "config.yaml",
        "partition.json",
        "split.npz",
        "rounds.jsonl",
        "status.json",
        "checkpoint",
        "models",
        "ledger.json",
        "summary.json",
    }
    lines = [json.loads(line) for line in (finished / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert set(line) == {
            "round",
            "active",
            "refused",
            "readouts",
            "losses",
            "bytes",
            "seconds",
            "moves",
        }
        assert len(line["active"]) == 3
        assert set(line["seconds"]) == {"train", "aggregate", "evaluate", "checkpoint", "total"}
        for score in line["readouts"].values():
            assert set(score) == {*METRICS, "clients", "accuracy"}
            assert score["clients"] == list(range(6))
    summary = json.loads((finished / "summary.json").read_text())
    assert set(summary) == {
        "algorithm",
        "rounds",
        "seed",
        "readouts",
        "best",
        "seconds",
        "bytes",
        "disclosed",
        "ended",
    }
    for name in ("aca", "oca"):
        expected = {k: lines[-1]["readouts"][name][k] for k in METRICS}
        assert summary["readouts"][name] == expected
        assert summary["best"][name]["amp"] == max(r["readouts"][name]["amp"] for r in lines)
    assert summary["disclosed"] == ["monitoring", "sizes", "weights"]
    assert json.loads((finished / "ledger.json").read_text())["leakage"] == []
    assert json.loads((finished / "status.json").read_text())["state"] == "finished"


def test_bytes_are_counted_from_what_was_sent(finished: Path) -> None:
    model = sum(t.nbytes for t in RunResult(finished)["aca"].values())
    ledger = json.loads((finished / "ledger.json").read_text())
    rounds, active, clients = 3, 3, 6
    assert ledger["training"]["down"] == {"weights": rounds * active * 2 * model}
    assert ledger["training"]["up"]["weights"] == rounds * active * model
    assert ledger["training"]["up"]["sizes"] == 8 * clients
    assert ledger["evaluation"]["down"] == {"weights": rounds * clients * 2 * model}


def RunResult(folder: Path) -> dict[str, Any]:  # noqa: N802
    from safetensors.torch import load_file

    return {p.stem: load_file(p) for p in (folder / "models").glob("*.safetensors")}


def test_the_written_configuration_repeats_the_run(finished: Path, tmp_path: Path) -> None:
    fedkf.run(finished / "config.yaml", out=tmp_path / "again")
    assert model_bytes(tmp_path / "again") == model_bytes(finished)
    written = yaml.safe_load((finished / "config.yaml").read_text())
    assert {"versions", "machine", "revision", "data_sha256"} <= set(written["provenance"])
    assert written["provenance"]["machine"]["load"] >= 0


def test_a_folder_that_holds_a_run_is_refused_without_resume(
    settings: Settings, finished: Path
) -> None:
    before = model_bytes(finished)
    with pytest.raises(UserError, match="already holds a run; resume it"):
        fedkf.run(settings, out=finished)
    assert model_bytes(finished) == before


def test_resuming_a_finished_run_returns_it_unchanged(settings: Settings, finished: Path) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in (finished / "models").iterdir()}
    result = fedkf.run(settings, out=finished, resume=True)
    assert result.summary["rounds"] == 3
    assert {p: p.stat().st_mtime_ns for p in (finished / "models").iterdir()} == stamps


def test_resuming_an_empty_or_missing_folder_starts_the_run(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        assert fedkf.run(settings, out=tmp_path / name, resume=True).summary["rounds"] == 3


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"lr": 0.02}, "federation.lr"),
        ({"data.alpha": 9.0}, "data.alpha"),
        ({"algorithm.gamma": 0.5}, "algorithm.gamma"),
        ({"threads": 2}, "engine.threads"),
    ],
)
def test_resuming_with_another_configuration_is_refused_naming_the_key(
    settings: Settings, finished: Path, change: dict[str, Any], key: str
) -> None:
    with pytest.raises(UserError, match=f"^{key} is .* but the run began with"):
        fedkf.run(settings, out=finished, resume=True, **change)


def test_resuming_with_other_data_is_refused(settings: Settings, tmp_path: Path) -> None:
    import numpy as np

    images, labels = np.random.default_rng(0).random((90, 16, 16)), np.arange(90) % 3
    settings["data"]["path"] = str(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    fedkf.run(settings, out=tmp_path / "run", rounds=1)
    np.savez(tmp_path / "mine.npz", images=images**2, labels=labels)
    with pytest.raises(UserError, match="the data is not the one that the run"):
        fedkf.run(settings, out=tmp_path / "run", rounds=2, resume=True)


def test_workers_and_output_may_change_on_resume(settings: Settings, finished: Path) -> None:
    result = fedkf.run(settings, out=finished, resume=True, rounds=4, workers=1, checkpoint_every=2)
    assert result.summary["rounds"] == 4


def interrupt_after(round: int) -> Any:
    def stop(record: dict[str, Any]) -> None:
        if record["round"] == round:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("damage", ["torn", "missing", "ahead"])
def test_rounds_jsonl_is_repaired_on_resume(
    settings: Settings, tmp_path: Path, finished: Path, damage: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        fedkf.run(settings, out=tmp_path / "b", on_round=interrupt_after(2))
    assert json.loads((tmp_path / "b" / "status.json").read_text())["state"] == "stopped"
    path = tmp_path / "b" / "rounds.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 2
    if damage == "torn":
        path.write_text(lines[0] + lines[1][:40])
    elif damage == "missing":
        path.write_text(lines[0])
    else:
        path.write_text("".join(lines) + lines[1].replace('"round": 2', '"round": 3'))
    result = fedkf.run(settings, out=tmp_path / "b", resume=True)
    assert [r["round"] for r in result.history] == [1, 2, 3]
    assert model_bytes(tmp_path / "b") == model_bytes(finished)


@pytest.mark.parametrize(
    "file",
    [
        ".manifest.json.{pid}.tmp",
        ".state.2.safetensors.{pid}.tmp",
        "slots-overall/.{client}-2.safetensors.{pid}.tmp",
    ],
)
def test_a_full_disk_is_told_and_leaves_the_earlier_checkpoint_intact(
    settings: Settings, tmp_path: Path, finished: Path, file: str
) -> None:
    folder = tmp_path / "full"

    def fill(record: dict[str, Any]) -> None:
        if record["round"] == 1:
            names = {file.format(pid=os.getpid(), client=client) for client in range(6)}
            for name in names:
                (folder / "checkpoint" / name).symlink_to("/dev/full")

    with pytest.raises(FedkfError, match=r"the disk is full .* nothing that was finished is lost"):
        fedkf.run(settings, out=folder, on_round=fill)
    assert json.loads((folder / "checkpoint" / "manifest.json").read_text())["round"] == 1
    assert json.loads((folder / "status.json").read_text())["state"] == "failed"
    fedkf.run(settings, out=folder, resume=True)
    assert model_bytes(folder) == model_bytes(finished)


@pytest.mark.parametrize("kind", ["slots-overall", "clients"])
def test_a_folder_that_cannot_be_written_any_more_is_told_and_the_run_resumed(
    settings: Settings, tmp_path: Path, finished: Path, kind: str
) -> None:
    folder = tmp_path / "shut"
    place, aside = folder / "checkpoint" / kind, tmp_path / "aside"

    def shut(record: dict[str, Any]) -> None:
        if record["round"] == 1:
            place.rename(aside)
            place.write_bytes(b"")

    with pytest.raises(FedkfError, match=rf"cannot write .*{kind}.*: Not a directory"):
        fedkf.run(settings, out=folder, on_round=shut)
    place.unlink()
    aside.rename(place)
    fedkf.run(settings, out=folder, resume=True)
    assert model_bytes(folder) == model_bytes(finished)


def test_a_file_in_place_of_the_folder_is_told(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in ("file", "file/below"):
        with pytest.raises(UserError, match="not a folder"):
            fedkf.run(settings, out=tmp_path / out)


def test_a_checkpoint_writes_only_what_changed_and_keeps_only_what_is_needed(
    settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    seen: set[int] = set()
    before: dict[str, int] = {}

    def look(record: dict[str, Any]) -> None:
        files = {
            str(p.relative_to(folder)): p.stat().st_mtime_ns
            for p in (folder / "checkpoint").rglob("*.safetensors")
        }
        seen.update(record["active"])
        for part in ("clients", "slots-overall"):
            mine = [name for name in files if f"/{part}/" in name]
            assert len(mine) == len(seen)
            new = {int(n.split("/")[-1].split("-")[0]) for n in mine if before.get(n) != files[n]}
            assert new == set(record["active"])
        before.clear()
        before.update(files)

    fedkf.run(settings, out=folder, rounds=6, on_round=look)
    # slots and states, and w⁰, the state, T1's sum, the two final readouts and the defence's memory
    assert len(before) == 2 * len(seen) + 6


def test_a_checkpoint_flushes_a_folder_once_for_all_of_its_new_files(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, in_round = tmp_path / "checkpoint", dict[int, list[Path]]()
    flushed = flushes(monkeypatch)

    def note(record: dict[str, Any]) -> None:
        in_round[record["round"]] = [path for path in flushed if path.is_dir()]
        flushed.clear()

    fedkf.run(settings, out=tmp_path, on_round=note)
    assert in_round[2] == [place, place / "clients", place / "slots-overall", place]


def test_without_a_folder_nothing_is_left_behind(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    result = fedkf.run(settings)
    assert set(result.models) == {"aca", "oca"}
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_is_returned_even_if_its_data_is_gone(
    settings: Settings, tmp_path: Path
) -> None:
    import shutil

    settings["data"]["path"] = shutil.copy(settings["data"]["path"], tmp_path / "mine.npz")
    first = fedkf.run(settings, out=tmp_path / "run")
    (tmp_path / "mine.npz").unlink()
    assert fedkf.run(settings, out=tmp_path / "run", resume=True).summary == first.summary
    with pytest.raises(UserError, match=r"federation\.lr is 0\.7 but the run began"):
        fedkf.run(settings, out=tmp_path / "run", resume=True, lr=0.7)


def test_resuming_with_another_model_is_refused(settings: Settings, tmp_path: Path) -> None:
    import torch

    def make(width: int) -> Any:
        linear = torch.nn.Linear
        return lambda: torch.nn.Sequential(torch.nn.Flatten(), linear(256, width), linear(width, 3))

    fedkf.run(settings, out=tmp_path, rounds=1, model=make(4))
    with pytest.raises(UserError, match="the model is not the one that the run"):
        fedkf.run(settings, out=tmp_path, rounds=2, model=make(5), resume=True)


def test_what_began_no_round_is_simply_started_anew(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="min_clients is 9"):
        fedkf.run(settings, out=tmp_path, min_clients=9)
    assert fedkf.run(settings, out=tmp_path, lr=0.03).summary["rounds"] == 3


def test_nothing_of_a_run_that_came_to_nothing_is_left_in_the_next(
    settings: Settings, tmp_path: Path
) -> None:
    def stop(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    other = {**settings, "data": {**settings["data"], "seed": 5}}
    early: dict[str, Any] = {"checkpoint_every": 9, "keep": 1}
    with pytest.raises(KeyboardInterrupt):
        fedkf.run(other, out=tmp_path / "a", on_round=stop, **early)
    assert (tmp_path / "a" / "kept" / "round-1").exists()
    (tmp_path / "a" / "notes.txt").write_text("mine")
    fedkf.run(settings, out=tmp_path / "a", algorithm="fedavg")
    fedkf.run(settings, out=tmp_path / "b", algorithm="fedavg")
    splits = [(tmp_path / name / "split.npz").read_bytes() for name in "ab"]
    assert splits[0] == splits[1]
    assert not list((tmp_path / "a" / "kept").iterdir())
    assert (tmp_path / "a" / "notes.txt").read_text() == "mine"


def test_a_checkpoint_that_lost_a_file_is_told_and_not_guessed(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, out=tmp_path, rounds=2)
    victim = next((tmp_path / "checkpoint" / "slots-overall").iterdir())
    victim.unlink()
    with pytest.raises(FedkfError, match=f"{victim.name} is missing, which the checkpoint names"):
        fedkf.run(settings, out=tmp_path, rounds=3, resume=True)


def test_a_folder_in_the_place_of_the_status_does_not_stop_a_run(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "status.json").mkdir()
    assert fedkf.run(settings, out=tmp_path).summary["rounds"] == 3
    assert not (tmp_path / ".status.json.tmp").exists()


def test_the_status_is_written_once_a_second_however_many_clients_answer(tmp_path: Path) -> None:
    writer, status = Writer(RunFolder(tmp_path), rounds=3), tmp_path / "status.json"

    def beat() -> float:
        return float(json.loads(status.read_text())["heartbeat"])

    writer.round_started(1, range(10_000))
    begun = beat()
    writer.client_finished(None)
    assert beat() == begun
    for earlier in (begun - 2, begun + 3600):  # a second has passed, or the clock was put back
        writer.status["heartbeat"] = earlier
        writer.client_finished(None)
        assert begun < beat() < begun + 60
    writer.round_started(2, [0])  # what is new is told at once
    assert json.loads(status.read_text())["round"] == 2
