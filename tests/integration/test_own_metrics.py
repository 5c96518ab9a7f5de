"""Metrics of the user's own, named on the command line: run, resumed, evaluated, reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Settings

from fedkf.core.errors import FedkfError, UserError
from fedkf.flower.settings import incoming
from fedkf.metrics import METRICS, summarise
from fedkf.metrics.own import recall
from fedkf.metrics.sites import SITE_METRICS
from fedkf.report.page import build
from fedkf.report.runs import read_runs
from fedkf.runs.config import resolve

MODULE = '''
import numpy as np
from fedkf.metrics import Metric, amp
from fedkf.metrics.sites import SiteMetric


def spread(accuracies):
    """Best site less worst."""
    return max(accuracies) - min(accuracies)


def smallest(confusion):
    found = np.diagonal(confusion, axis1=-2, axis2=-1) / np.maximum(confusion.sum(-1), 1)
    return found.min(-1)


hardest = SiteMetric("hardest", "hardest class", "share found of it", "confusion", smallest)
clash = Metric("amp", "AMP", "mean", amp)
'''
NAMED = ["--set", "data.metrics=[own_metrics_here:spread, own_metrics_here:hardest]"]
NAMED += ["--set", "evaluation.metric=own_metrics_here:hardest"]


@pytest.fixture(scope="module")
def folder(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from conftest import tiny

    place = tmp_path_factory.mktemp("own")
    (place / "own_metrics_here.py").write_text(MODULE)
    content = {**tiny(npz), "algorithm": {"name": "fedavg"}}
    (place / "tiny.yaml").write_text(yaml.safe_dump(content))
    return place


def fedkf_in(folder: Path, *words: str) -> str:
    """A command in a process of its own, which knows nothing but what it is told."""
    command = [sys.executable, "-m", "fedkf", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_score(folder: Path) -> dict[str, Any]:
    score: dict[str, Any] = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])[
        "readouts"
    ]["oca"]
    return score


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """Two rounds with worker processes, then a third one in another process."""
    out = ["--out", "run", "--quiet"]
    rounds = "federation.rounds=2"
    fedkf_in(folder, "run", "tiny.yaml", *NAMED, "--set", rounds, "--workers", "2", *out)
    fedkf_in(folder, "run", "tiny.yaml", *NAMED, "--resume", *out)
    return folder / "run"


def test_every_round_has_them(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    for line in lines:
        score = line["readouts"]["oca"]
        known = [v for v in score["sites"]["values"]["hardest"] if v is not None]
        assert score["metric"] == "hardest"
        assert score["spread"] == pytest.approx(max(known) - min(known))
        assert score["wlp"] == min(known)


def test_evaluate_computes_them_anew(run: Path, folder: Path) -> None:
    found = json.loads(fedkf_in(folder, "evaluate", "run", "--json"))
    score = last_score(run)
    assert found["metric"] == "hardest"
    assert found["spread"] == pytest.approx(score["spread"])
    assert found["amp"] == pytest.approx(score["amp"])
    shown = fedkf_in(folder, "evaluate", "run")
    assert "hardest class" in shown
    assert f"spread {100 * score['spread']:.1f}" in shown


def test_a_report_shows_them_and_runs_no_code(run: Path) -> None:
    assert "own_metrics_here" not in sys.modules
    page = build(read_runs([run]))
    score = last_score(run)
    assert f'data-metric="spread" data-value="{score["spread"]}"' in page
    assert "spread: Best site less worst" in page
    assert "hardest class" in page
    assert "own_metrics_here" not in sys.modules
    assert "spread" not in summarise([0.5, 1.0], [1, 1])  # what cannot be computed is not


def test_what_is_no_metric_is_told(settings: Settings, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for key, name, sentence in (
        ("data.metrics", ["own_metrics_here:clash"], "is called 'amp', as one of fedkf's own is"),
        ("data.metrics", ["own_metrics_here:np"], "and no function of accuracies"),
        ("data.metrics", ["own_metrics_here:absent"], "has no 'absent'"),
        ("data.metrics", ["absent_module:spread"], "cannot be imported"),
        ("data.metrics", ["acuracy"], "or package.module:object"),
        ("evaluation.metric", "own_metrics_here:spread", "one over sites goes into data.metrics"),
    ):
        with pytest.raises(UserError, match=sentence):
            resolve(settings, {key: name})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("data", "metrics", ["os:getcwd"]), ("evaluation", "metric", "os:getcwd")],
)
def test_a_site_imports_none_that_its_file_does_not_allow(
    section: str, key: str, value: Any
) -> None:
    content = {section: {key: value}}
    with pytest.raises(FedkfError, match=f"{section}.{key} 'os:getcwd' is not among"):
        incoming(content, [])
    assert incoming(content, ["os:getcwd"]) is not None


@pytest.mark.parametrize(
    "told",
    [
        "text",
        [1],
        [{"of": "sites", "name": "a b", "label": "x", "about": "y"}],
        [{"of": "sites", "name": "a", "label": "x" * 999, "about": "y"}],
        [{"of": "sites", "name": "a", "label": "x\x1b[2J", "about": "y"}],
        [{"of": "site", "name": "a", "label": "x", "about": "y", "percent": 3}],
        [{"of": "sites", "name": "a", "label": "x", "about": "y", "digits": 99}],
        [{"of": "sites", "name": "amp", "label": "mine", "about": "y"}],
    ],
)
def test_a_folder_that_lies_about_metrics_changes_nothing(told: Any) -> None:
    before = dict(METRICS), dict(SITE_METRICS)
    recall(told)
    assert before == (METRICS, SITE_METRICS)


BROKEN = """
def undecided(accuracies):
    return float("nan")


def wrong(accuracies):
    raise ValueError("no such thing")


def wordy(accuracies):
    return "good"
"""


def test_a_metric_that_comes_to_no_number_is_null_and_the_run_stays_whole(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "broken_metrics_here.py").write_text(BROKEN)
    named = ["--set", "data.metrics=[broken_metrics_here:undecided]", "--quiet"]
    out = [*named, "--out", str(tmp_path / "run"), "--set"]
    fedkf_in(folder, "run", "tiny.yaml", *out, "federation.rounds=2")
    fedkf_in(folder, "run", "tiny.yaml", *out, "federation.rounds=3", "--resume")
    score = last_score(tmp_path / "run")
    assert score["undecided"] is None
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["rounds"] == 3
    assert summary["readouts"]["oca"]["amp"] == score["amp"]


@pytest.mark.parametrize(
    ("name", "why"), [("wrong", "ValueError: no such thing"), ("wordy", "could not convert")]
)
def test_a_metric_that_fails_is_named(folder: Path, tmp_path: Path, name: str, why: str) -> None:
    (folder / "broken_metrics_here.py").write_text(BROKEN)
    command = [sys.executable, "-m", "fedkf", "run", "tiny.yaml", "--out", str(tmp_path / "run")]
    command += ["--set", f"data.metrics=[broken_metrics_here:{name}]", "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"data.metrics: broken_metrics_here:{name} fails" in done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
