"""The services and the container recipe say what the command line understands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def command_of(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
    return shlex.split(line)


def documented() -> list[list[str]]:
    """Every command in the page beside them."""
    text = (DEPLOY / "README.md").read_text()
    found = re.findall(r"^.*\bfedkf (?:coordinator|site) .+$", text, re.MULTILINE)
    return [shlex.split(re.sub(r"^.*?\bfedkf (?=coordinator|site)", "", line)) for line in found]


def options_of(arguments: list[str]) -> set[str]:
    return {word for word in arguments if word.startswith("--")}


def test_there_is_a_unit_for_each_side() -> None:
    assert [unit.name for unit in UNITS] == ["fedkf-coordinator.service", "fedkf-site@.service"]


@pytest.mark.parametrize(
    "arguments", [*(command_of(unit)[1:] for unit in UNITS), *documented()], ids=" ".join
)
def test_every_command_exists_with_its_options(
    cli: Callable[..., Outcome], arguments: list[str]
) -> None:
    outcome = cli(*arguments[:2], "--help")
    assert outcome.code == 0
    assert options_of(arguments) <= set(re.findall(r"--[a-z-]+", outcome.out))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_units(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    # It looks whether the program is there.
    text = unit.read_text().replace(command_of(unit)[0], sys.executable)
    copy = tmp_path / unit.name.replace("@.", "@north.")
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    told = [line for line in done.stderr.splitlines() if unit.name.split(".")[0][:10] in line]
    assert told == []
    assert done.returncode == 0, done.stderr


def test_the_image_is_made_of_what_there_is() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "'.[flower]'" in text
    assert "flower" in project["optional-dependencies"]
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)
    assert json.loads(entry)[0] in project["scripts"]
    assert re.search(r"^USER fedkf$", text, re.MULTILINE)
