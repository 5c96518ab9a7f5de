"""Flower's programs: those that stand in for them, and what is said when they do not answer."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedkf.core.errors import FedkfError
from fedkf.flower import programs


def python_in(folder: Path) -> Path:
    """This Python, by a path of its own."""
    folder.mkdir()
    file = folder / "python"
    file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    file.chmod(0o700)
    return file


def said_by(program: Path, folder: Path, *arguments: str) -> str:
    """What a module `saying` of this folder writes to the program's log."""
    (folder / "saying.py").write_text(
        "import sys\n\n\ndef main():\n    print(sys.argv[1:])\n    sys.exit(3)\n"
    )
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    return (program.parents[1] / f"{program.name}.log").read_text()


@pytest.mark.parametrize("name", ["a b", "it's ''here''", '$(false) ""', "n" * 200])
def test_a_program_stands_in_wherever_python_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "the site's"
    site.mkdir()
    with monkeypatch.context() as changed:
        changed.setattr(sys, "executable", str(python_in(tmp_path / name)))
        programs.stand_in(site / "bin", "flwr-clientapp", "saying")
    program = site / "bin" / "flwr-clientapp"
    assert program.stat().st_mode & 0o777 == 0o700
    assert said_by(program, tmp_path, "--token", "a b") == "['--token', 'a b']\n"


def test_a_log_that_has_grown_large_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LARGEST_LOG", 30)
    programs.stand_in(tmp_path / "bin", "flwr-clientapp", "saying")
    program = tmp_path / "bin" / "flwr-clientapp"
    for _ in range(12):
        assert len(said_by(program, tmp_path, "message")) <= 40
    assert (tmp_path / "flwr-clientapp.log.old").stat().st_size == 36


def test_when_flower_does_not_answer_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "flwr").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "flwr").chmod(0o700)
    monkeypatch.setattr(programs, "ANSWER", 0.2)
    with pytest.raises(FedkfError, match=r"did not answer within 0\.2 s \(supernode list\)"):
        programs.flwr(["supernode", "list", "lab"], {"PATH": os.environ["PATH"]})
