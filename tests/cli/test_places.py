"""Places that cannot be written are told in a sentence, before anything is computed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome, tiny

import fedkf
from fedkf.core.errors import FedkfError

CLI = Callable[..., Outcome]
NOWHERE = Path("/proc/fedkf/out")
"""Not even root makes a folder there."""


@pytest.fixture(scope="module")
def run(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fedkf.run(tiny(npz), rounds=1, algorithm="fedavg", out=folder)
    return folder


def refuse_to_write(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """What the system says of a folder that may only be read; tests may run as root."""
    temporary = tempfile.TemporaryFile

    def guarded(*, dir: Path) -> object:
        if Path(dir) == closed:
            raise PermissionError(13, "Permission denied", str(dir))
        return temporary(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", guarded)


@pytest.mark.parametrize("command", ["advise", "distill"])
def test_training_does_not_begin_where_nothing_can_be_kept(cli: CLI, command: str) -> None:
    code, out, err = cli(command, "digits", "--out", NOWHERE)
    assert code == 1
    assert f"cannot write {NOWHERE}" in err
    assert "unexpected" not in err
    assert out == ""


@pytest.mark.parametrize("command", ["advise", "distill", "export", "partition"])
def test_a_file_in_the_place_of_a_folder_is_the_users_mistake(
    cli: CLI, run: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("")
    about = run if command == "export" else "digits"
    code, out, err = cli(command, about, "--out", tmp_path / "file" / "x" / "y")
    assert (code, out) == (2, "")
    place = tmp_path / "file" / "x" / "y"
    assert err.endswith(f"cannot write {place}: {tmp_path / 'file'} is no folder\n")
    assert err.count("\n") == 1


def test_a_model_is_not_exported_where_nothing_can_be_written(cli: CLI, run: Path) -> None:
    code, _, err = cli("export", run, "--out", NOWHERE)
    assert code == 1
    assert f"cannot write {NOWHERE}" in err


def test_nothing_is_exported_or_personalised_in_a_folder_that_may_only_be_read(
    cli: CLI, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    refuse_to_write(monkeypatch, closed)
    code, _, err = cli("export", run, "--out", closed)
    assert code == 1
    assert f"cannot write {closed}: Permission denied" in err
    refuse_to_write(monkeypatch, run)
    before = {path.name for path in run.iterdir()}
    with pytest.raises(FedkfError, match=f"cannot write {run}: Permission denied"):
        fedkf.personalize(run, workers=0)
    assert {path.name for path in run.iterdir()} == before
