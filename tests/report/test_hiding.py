"""What a report and the dashboard say of a run with secure sums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome, tiny

from fedkf.report.hiding import in_a_line, promise
from fedkf.report.runs import read_run
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute


@pytest.fixture(scope="module")
def secure(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secure") / "run"
    keys = {"transport.secure": True, "algorithm.name": "fedavg", "federation.rounds": 1}
    execute(resolve(tiny(npz), keys), folder)
    return folder


def test_the_report_says_what_is_promised_to_whom_and_what_is_not(
    secure: Path, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    ended = cli("report", secure, "--out", tmp_path / "report.html")
    assert ended.code == 0, ended.err
    page = (tmp_path / "report.html").read_text()
    assert "no site&#39;s model, as long as it followed the protocol" in page
    assert "worked with no site. Masks hold against fewer than 60% of a round&#39;s sites" in page
    assert "how many samples a site has" in page
    assert "federation.defence has nothing to look at" in page
    assert "a rehearsal on one machine" in page
    assert "masked_weights" in page


def test_the_dashboard_says_it_in_a_line_with_what_t1_left_out(
    secure: Path, tmp_path: Path
) -> None:
    assert in_a_line(read_run(secure)).endswith("never one of them")
    line = json.loads((secure / "rounds.jsonl").read_text())
    (secure / "rounds.jsonl").write_text(json.dumps({**line, "uncounted": [1, 2]}) + "\n")
    run = read_run(secure)
    assert "T1 has left out 2 uploads" in in_a_line(run)
    found = promise(run)
    assert found is not None
    assert any("T1 left out 2 uploads" in note for note in found["notes"])


def test_a_plain_run_promises_nothing(three_runs: Path) -> None:
    run = read_run(next(path for path in three_runs.iterdir() if path.is_dir()))
    assert promise(run) is None
    assert in_a_line(run) == ""
