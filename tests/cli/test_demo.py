"""What a demo may remove: the runs of an earlier demo, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome

from fedkf.cli.demo import demo_config, refuse_other
from fedkf.core.errors import UserError
from fedkf.runs.config import parse, to_dict
from fedkf.runs.schema import Config
from fedkf.runs.setup import load_source, settle
from fedkf.runs.store import RunFolder


def begun(folder: Path, config: Config) -> RunFolder:
    """A run as it lies on the disk, with a file of the user's beside it."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run.write_config(settle(config, load_source(config)), {})
    (run / "summary.json").write_text("{}")
    (run / "models").mkdir()
    (run / "models" / "oca.safetensors").write_text("weights")
    (run / "notes.txt").write_text("mine")
    return run


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_of_the_users_is_refused_and_left_alone(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    demos = demo_config("fedavg", 0, 0)
    longer = parse({**to_dict(demo_config("fedkf", 0, 0)), "federation": {"rounds": 500}})
    begun(tmp_path / "fedavg", demos)  # not even that one goes
    begun(tmp_path / "fedkf", longer)
    before = contents(tmp_path)
    code, _, err = cli("demo", "--out", tmp_path, "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'fedkf'} holds a run that is no demo's; choose another folder" in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "seasons: 4", "[]"])
def test_a_folder_with_any_other_config_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match="no demo's"):
        refuse_other(RunFolder(tmp_path), "fedkf")


def test_a_demo_makes_room_for_the_next_whatever_its_seed(tmp_path: Path) -> None:
    run = begun(tmp_path / "fedkf", demo_config("fedkf", 2, 7))
    refuse_other(run, "fedkf")
    run.clear()
    assert {path.name for path in run.path.iterdir()} == {".lock", "notes.txt"}
    refuse_other(RunFolder(tmp_path / "fedavg"), "fedavg")  # where there is nothing yet
