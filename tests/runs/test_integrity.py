"""Integrity: a file that is not what the run had written is named, and nothing else happens."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome, Settings, tiny

import fedkf
from fedkf.core.errors import FedkfError, UserError
from fedkf.runs.integrity import check_run


@pytest.fixture(scope="module")
def run(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fedkf.run(tiny(npz), rounds=2, algorithm="scaffold", out=folder)
    return folder


def flip(path: Path) -> None:
    """One bit of the last byte, which is a tensor's or the end of a text."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(bytes(content))


def one(pattern: str) -> Callable[[Path], Path]:
    return lambda folder: sorted(folder.glob(pattern))[0]


FILES = {
    "slot": one("checkpoint/slots-overall/*.safetensors"),
    "private state": one("checkpoint/clients/*.safetensors"),
    "server state": one("checkpoint/state.*.safetensors"),
    "first weights": one("checkpoint/start.*.safetensors"),
    "journal": one("checkpoint/journal.jsonl"),
    "manifest": one("checkpoint/manifest.json"),
}


def test_a_sound_run_has_nothing_wrong_with_it(run: Path, cli: Callable[..., Outcome]) -> None:
    assert check_run(run) == []
    result = cli("check", run)
    assert result.code == 0
    assert "every file is what the run had written" in result.out


@pytest.mark.parametrize("what", FILES)
def test_a_flipped_bit_is_named_and_the_resume_changes_nothing(
    settings: Settings, run: Path, tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    victim = FILES[what](folder)
    flip(victim)
    assert [victim.name in sentence for sentence in check_run(folder)] == [True]
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}
    with pytest.raises(FedkfError, match=victim.name):
        fedkf.run(settings, rounds=3, algorithm="scaffold", out=folder, resume=True)
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}
    assert after == before


def test_a_model_that_was_changed_is_not_loaded(
    run: Path, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    flip(folder / "models" / "oca.safetensors")
    with pytest.raises(FedkfError, match=r"oca\.safetensors is damaged"):
        fedkf.load(folder)
    result = cli("check", folder)
    assert result.code == 1
    assert "oca.safetensors" in result.out
    assert "1 file of" in result.err


def test_a_file_of_another_run_is_noticed(settings: Settings, run: Path, tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "run"
    fedkf.run(settings, rounds=2, algorithm="scaffold", seed=5, out=other)
    shutil.copytree(run, folder)
    victim = FILES["server state"](folder)
    shutil.copyfile(FILES["server state"](other), victim)
    with pytest.raises(FedkfError, match=victim.name):
        fedkf.run(settings, rounds=3, algorithm="scaffold", out=folder, resume=True)


def test_what_is_no_run_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        check_run(tmp_path)
