"""Runs are read as far as they can be, and what cannot be read is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from folders import append, finish, record, write_run

from fedkf import algorithms
from fedkf.core.errors import UserError
from fedkf.report.runs import WITHOUT_SHARED_MODEL, find_runs, read_run, read_runs


def test_a_finished_run_reads_as_its_summary_says(three_runs: Path) -> None:
    run = read_run(three_runs / "fedkf")
    summary = json.loads((three_runs / "fedkf" / "summary.json").read_text())
    for readout in ("aca", "oca"):
        numbers = run.numbers(readout)
        assert numbers is not None
        assert numbers.values.items() >= summary["readouts"][readout].items()
    assert run.notes == []
    assert [r.round for r in run.rounds] == [1, 2, 3]


def test_runs_are_labelled_by_algorithm_and_by_folder_where_that_is_not_enough(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "x" / "one", [[0.5, 1]])
    write_run(tmp_path / "x" / "two", [[0.5, 1]])
    write_run(tmp_path / "y" / "two", [[0.5, 1]])
    write_run(tmp_path / "z", [[0.5, 1]], "fedkf")
    labels = [run.label for run in read_runs([tmp_path])]
    assert labels == ["FedAvg · one", "FedAvg · x/two", "FedAvg · y/two", "FedKF"]


def test_the_algorithms_without_a_shared_model_are_known_without_loading_them() -> None:
    found = {name for name in algorithms.names() if not algorithms.shares_model(name)}
    assert found == WITHOUT_SHARED_MODEL


def test_a_run_named_twice_is_read_once(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [[0.5, 1]])
    assert len(read_runs([tmp_path, tmp_path / "one"])) == 1


def test_damaged_lines_are_left_out_and_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1]])
    with open(run / "rounds.jsonl", "a") as file:
        file.write('{"round": 2, "readouts"\n[]\n{"round": "x"}\n\x00\n')
        file.write('{"round": 9, "readouts": {"oca": {"clients": [0], "accuracy": []}}}\n')
    append(run, record(3, {"oca": [0.6, 0.8]}))
    read = read_run(run)
    assert [r.round for r in read.rounds] == [1, 3]
    assert read.notes == [
        "rounds.jsonl is damaged: lines 2, 3, 4, 5, 6 are left out, 2 rounds read"
    ]


def test_a_last_line_that_is_still_being_written_is_no_damage(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1]])
    with open(run / "rounds.jsonl", "a") as file:
        file.write('{"round": 2, "rea')
    read = read_run(run)
    assert len(read.rounds) == 1
    assert read.notes == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", '{"algorithm": 3}'),
        ("summary.json", '{"algorithm": "fedavg", "rounds": 1, "readouts": {"oca": {"amp": "7"}}}'),
        ("status.json", '{"round": 1e999}'),
        ("partition.json", "[1, 2"),
        ("ledger.json", '{"training": {"up": {"weights": -1}}}'),
        ("config.yaml", "algorithm: {name: [}"),
    ],
)
def test_any_damaged_file_is_noted_and_the_rest_is_read(
    tmp_path: Path, name: str, content: str
) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1]])
    (run / name).write_text(content)
    read = read_run(run)
    assert len(read.notes) == 1
    assert read.notes[0].startswith(f"{name} is damaged")
    assert read.score("oca") is not None


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside" / "secret", [[0.5, 1]])
    finish(outside)
    run = write_run(tmp_path / "inside" / "run", [[0.5, 1]])
    (run / "summary.json").symlink_to(outside / "summary.json")
    (run / "partition.json").unlink()
    os.mkfifo(run / "partition.json")
    (tmp_path / "inside" / "link").symlink_to(outside)
    assert list(find_runs(tmp_path / "inside")) == [run]
    read = read_run(run)
    assert read.summary is None
    assert any("partition.json is not a file" in note for note in read.notes)


def test_a_missing_folder_and_one_without_runs_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        read_runs([tmp_path / "gone"])
    with pytest.raises(UserError, match="holds no run"):
        read_runs([tmp_path])


def test_a_configuration_that_unfolds_without_end_is_damage_not_a_wait(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [[0.5, 0.6]])
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [" + ", ".join([f"*a{k - 1}"] * 10) + "]" for k in range(1, 12)]
    (run / "config.yaml").write_text("\n".join(lines))
    assert "config.yaml is damaged" in read_run(run).notes
