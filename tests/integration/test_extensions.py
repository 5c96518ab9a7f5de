"""A metric and an engine from a module of the user's own, in one run, without touching ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Outcome, Settings

from fedkf.metrics import METRICS

MODULE = """
from fedkf.engines.in_process import InProcessEngine
from fedkf.metrics import Metric, register

spread = lambda accuracies: max(accuracies) - min(accuracies)
register(Metric("spread", "Spread", "best minus worst", spread, higher_is_better=False))


def engine(host, population, settings):
    return InProcessEngine(host, population)
"""


def test_they_run_and_show_up_in_records_table_and_report(
    cli: Callable[..., Outcome],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(settings))
    try:
        done = cli("run", "tiny.yaml", "--engine", "mine:engine", "--out", "run", "--quiet")
        assert done.code == 0, done.err
        last = json.loads((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()[-1])
        score = last["readouts"]["oca"]
        known = [a for a in score["accuracy"] if a is not None]
        assert score["spread"] == max(known) - min(known)
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert summary["readouts"]["oca"]["spread"] == score["spread"]
        assert "Spread" in done.out
        report = cli("report", "run", "--out", "report.html")
        assert report.code == 0, report.err
        assert "Spread" in (tmp_path / "report.html").read_text()
    finally:
        METRICS.pop("spread", None)
