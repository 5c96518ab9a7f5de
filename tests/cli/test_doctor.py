"""fedkf doctor and fedkf completion."""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome

from fedkf.runs import health

CLI = Callable[..., Outcome]


def test_a_sound_machine_is_told_so(cli: CLI, tmp_path: Path) -> None:
    code, out, err = cli("doctor", "--out", tmp_path / "not" / "yet")
    assert code == 0, err
    found = {line.split(":")[0].split(maxsplit=1)[1]: line for line in out.splitlines()}
    assert {"python", "packages", "device", "data", "disk", "locks", "fork"} <= found.keys()
    assert "digits" in found["data"]
    assert not (tmp_path / "not").exists()


def test_what_is_wrong_is_named(cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path / "nowhere"))
    code, out, err = cli("doctor", "--out", tmp_path)
    assert code == 1
    assert "NO  data: FEDKF_DATA names" in out
    assert "not everything is well here: data" in err


def test_a_lock_of_another_process_is_seen_and_a_silent_child_is_not_waited_for() -> None:
    assert health.in_a_child(lambda: "here") == "here"
    assert health.in_a_child(lambda: str(builtins.exit()), seconds=0.2) == ""


def test_a_missing_extra_is_told_with_its_command(
    cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "uvicorn" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert "extra dashboard: not here: pip install 'fedkf[dashboard]'" in cli("doctor").out
    code, _, err = cli("dashboard", tmp_path)
    assert code == 2
    assert "the dashboard needs a small server: pip install 'fedkf[dashboard]'" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_commands(cli: CLI, shell: str) -> None:
    assert "_FEDKF_COMPLETE" in cli("completion", shell).out


def test_an_unknown_shell_is_told(cli: CLI) -> None:
    assert "did you mean 'fish'" in cli("completion", "fisch").err
