"""The tutorials from raw files to a report, executed on the small files that they make."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)(?: title=\"(.+?)\")?\n(.*?)^```$", re.M | re.S)
SMALL = ["--set", "engine.workers=0", "--set", "federation.rounds=1"]
"""A command that trains does so more shortly than on the page: enough to tell what is flipped."""
Cli = Callable[..., tuple[int, str, str]]


def follow(page: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Do what a page says, one thing after the other; what each command printed."""
    said = {}
    for language, title, text in BLOCK.findall((ROOT / "docs/tutorials" / page).read_text()):
        if language in ("yaml", "csv"):
            Path(title).write_text(text)
        elif language == "python":
            exec(compile(text, page, "exec"), {})
        elif not language:
            for line in text.splitlines():
                said[line] = obey(shlex.split(line), cli, monkeypatch)
    return said


def obey(words: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    program, *rest = words
    if program == "python":
        monkeypatch.setattr(sys, "argv", rest)
        runpy.run_path(str(ROOT / rest[0]), run_name="__main__")
        return ""
    assert program == "fedkf"
    trains = SMALL if rest[0] in ("run", "advise") else []
    code, out, err = cli(*rest, *trains)
    assert code == 0, f"{' '.join(words)}: {err}"
    return out


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))


def test_a_wearable(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    said = follow("wearable.md", cli, monkeypatch)
    assert "cleo" in said["fedkf partition wearable.yaml"]
    assert "advice: " in said["fedkf advise wearable.yaml --out runs/wearable-advice"]
    assert "cleo" in Path("wearable.html").read_text()


def test_an_ecg(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    said = follow("ecg.md", cli, monkeypatch)
    assert "balanced accuracy % of each site" in said["fedkf advise ecg.yaml --out runs/ecg-advice"]
    assert "p3" in Path("ecg.html").read_text()


def test_a_hospitals_table(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    said = follow("hospital-table.md", cli, monkeypatch)
    advised = said["fedkf advise hospitals.yaml --out runs/hospitals-advice"]
    assert "AUROC % of each site" in advised
    sentence = next(line for line in advised.splitlines() if line.startswith("advice: "))
    assert re.search(r"south loses \d+ points by the shared model", sentence)
    assert "north" in Path("hospitals.html").read_text()
    told = said["fedkf predict runs/hospitals today.csv"].splitlines()
    assert [line.split(":")[0] for line in told] == ["today.csv, line 2", "today.csv, line 3"]
