"""A folder of runs is followed through whatever happens to them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from folders import append, finish, record, set_status, write_run

from fedkf.report import listing as listings
from fedkf.report.listing import Listing
from fedkf.runs.rounds import RoundsFile, last_rounds


@pytest.fixture
def listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listing:
    monkeypatch.setattr(listings, "PAUSE", 0.0)
    return Listing(tmp_path)


def rows(listing: Listing, since: int = 0) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in listing.changes(since)["rows"]}


def test_a_run_appears_grows_ends_and_goes(tmp_path: Path, listing: Listing) -> None:
    assert rows(listing) == {}
    run = write_run(tmp_path / "deep" / "run", [[0.5, 1.0]])
    row = rows(listing)["deep/run"]
    assert (row["state"], row["round"], row["rounds"], row["left"]) == ("running", 1, 3, 4)
    assert (row["algorithm"], row["metrics"]["amp"], row["metrics"]["wlp"]) == ("FedAvg", 0.75, 0.5)
    seen = listing.version
    assert rows(listing, seen) == {}
    append(run, record(2, {"oca": [0.7, 0.9]}))
    assert rows(listing, seen)["deep/run"]["metrics"]["wlp"] == 0.7
    append(run, record(3, {"oca": [0.8, 0.8]}))
    finish(run)
    set_status(run, "finished")
    row = rows(listing, seen)["deep/run"]
    assert (row["state"], row["left"]) == ("finished", None)
    seen = listing.version
    shutil.rmtree(run)
    assert listing.changes(seen)["names"] == []
    assert listing.runs(["deep/run"]) is None


def test_a_killed_run_falls_silent_and_lives_again_when_resumed(
    tmp_path: Path, listing: Listing
) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1.0], [0.6, 0.9]])
    set_status(run, heartbeat=time.time() - 3600)
    assert rows(listing)["run"]["state"] == "silent"
    shown = listing.runs(["run"])
    assert shown is not None
    assert [r.round for r in shown[0].rounds] == [1, 2]
    lines = (run / "rounds.jsonl").read_text().splitlines(keepends=True)
    (run / "new").write_text(lines[0])  # resuming goes back to the last checkpoint
    os.replace(run / "new", run / "rounds.jsonl")
    set_status(run)
    assert rows(listing)["run"]["state"] == "running"
    assert rows(listing)["run"]["round"] == 1
    shown = listing.runs(["run"])
    assert shown is not None
    assert [r.round for r in shown[0].rounds] == [1]


def test_a_file_of_rounds_reads_only_what_is_new_and_keeps_accuracies_of_the_last_round(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1.0], [0.6, 0.9]])
    file = RoundsFile(run / "rounds.jsonl")
    first, second = file.update()
    assert first.readouts is not None
    assert first.readouts["oca"].accuracy == ()
    assert first.readouts["oca"]["wlp"] == 0.5
    assert second.readouts is not None
    assert second.readouts["oca"].accuracy == [0.6, 0.9]
    at = file.offset
    with open(run / "rounds.jsonl", "a") as lines:
        lines.write('{"round": 3')
    assert len(file.update()) == 2
    assert file.offset == at
    with open(run / "rounds.jsonl", "a") as lines:
        lines.write(', "readouts": null}\nnonsense\n')
    assert [r.round for r in file.update()] == [1, 2, 3]
    assert file.damaged == [4]
    (run / "rounds.jsonl").unlink()
    assert list(file.update()) == []


def test_the_tail_of_a_long_file_holds_the_latest_evaluated_round(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1.0]])
    for number in range(2, 2000):
        append(run, record(number, {}) | {"readouts": None})
    path = run / "rounds.jsonl"
    assert path.stat().st_size > 5 * 32 * 1024
    rounds = last_rounds(path, path.stat().st_size)
    assert rounds[-1].round == 1999
    assert any(r.readouts for r in rounds)


def test_rounds_that_cannot_be_read_are_a_note(tmp_path: Path, listing: Listing) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1.0]])
    (tmp_path / "elsewhere").write_bytes((run / "rounds.jsonl").read_bytes())
    (run / "rounds.jsonl").unlink()
    (run / "rounds.jsonl").symlink_to(tmp_path / "elsewhere")
    (found,) = listing.runs(["run"]) or []
    assert list(found.rounds) == []
    assert any(note.startswith("rounds.jsonl cannot be read") for note in found.notes)


def test_a_folder_that_is_itself_a_run_is_shown(tmp_path: Path, listing: Listing) -> None:
    shutil.rmtree(tmp_path)
    write_run(tmp_path, [[0.5, 1.0]])
    assert list(rows(listing)) == [tmp_path.name]
