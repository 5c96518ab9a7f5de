"""Whatever became of a half-finished run's files: it ends as it would have, or is left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from campaign import Broken, all_held, case, check_sentence, command, fuzz, places  # noqa: F401
from conftest import model_bytes, tiny
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes, changed_lines

import fedkf

Files = dict[str, bytes | str]
"""The content of every file, or where a link points."""


@dataclass(frozen=True)
class Halves:
    """Two runs that were broken off after their second round, and how the first one ends."""

    config: Path
    run: Path
    other: Path
    models: dict[str, bytes]


def small(npz: Path, seed: int) -> dict[str, Any]:
    """A run whose clients keep private state, as quick as can be."""
    content = tiny(npz)
    content["federation"] |= {"rounds": 3, "local_epochs": 1, "steps": 1, "seed": seed}
    return content | {"algorithm": {"name": "scaffold"}, "model": {"name": "mlp"}}


@pytest.fixture(scope="session")
def halves(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Halves:
    folder = tmp_path_factory.mktemp("halves")

    def stop(record: Any) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    for name, seed in (("run", 0), ("other", 1)):
        with pytest.raises(KeyboardInterrupt):
            fedkf.run(small(npz, seed), out=folder / name, on_round=stop)
    config = folder / "study.yaml"
    config.write_text(json.dumps(small(npz, 0)))
    whole = fedkf.run(small(npz, 0), out=folder / "whole")
    return Halves(config, folder / "run", folder / "other", model_bytes(whole.folder))


def content_of(folder: Path) -> Files:
    """Everything in a folder but its lock, which every attempt takes."""
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"-> {path.readlink()}"
        elif path.is_file() and path.name != ".lock":
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def damage(draw: Callable[[Any], Any], folder: Path, other: Path) -> str:
    """Do something to one file of a run; what was done."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    path = draw(st.sampled_from(files))
    name = str(path.relative_to(folder))
    kinds = ["bytes", "remove", "empty", "other", "loop", "folder"]
    if path.suffix in (".json", ".jsonl"):
        kinds += ["value"] * 5
    kind = draw(st.sampled_from(kinds))
    content = path.read_bytes()
    path.unlink()
    if kind == "bytes":
        path.write_bytes(draw(changed_bytes(content)))
    elif kind == "value":
        path.write_bytes(draw(changed_lines(content)))
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "other" and (other / name).exists():
        shutil.copyfile(other / name, path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "folder":
        path.mkdir()
    return f"{name} {kind}"


def test_a_damaged_run_is_resumed_exactly_or_left_alone(halves: Halves, tmp_path: Path) -> None:
    assert command(*resume(halves, halves.run, tmp_path / "sound")).code == 0
    assert model_bytes(tmp_path / "sound") == halves.models

    @fuzz(12)
    @given(data=st.data())
    def explore(data: st.DataObject) -> None:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(halves.run, folder)
        done = damage(data.draw, folder, halves.other)
        before = content_of(folder)
        with case("run folders", done):
            outcome = command(*resume(halves, folder, folder))
            check_sentence(outcome, (0, 1, 2))
            if outcome.code == 0 and model_bytes(folder) != halves.models:
                raise Broken("it was resumed without a word, to other models")
            if outcome.code != 0 and (lost := differences(before, content_of(folder))):
                raise Broken(f"it was refused ({outcome.err.strip()[:150]}), but {lost} changed")

    explore()
    all_held("run folders")


def resume(halves: Halves, source: Path, folder: Path) -> tuple[object, ...]:
    """The command that goes on with a run in a folder, which may be a copy."""
    if source != folder:
        shutil.copytree(source, folder)
    return ("run", halves.config, "--out", folder, "--resume", "--quiet", "--json")


def differences(before: Files, after: Files) -> list[str]:
    return sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
