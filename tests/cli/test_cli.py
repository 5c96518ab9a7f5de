"""The command line as a person uses it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import Outcome, Settings, model_bytes

CLI = Callable[..., Outcome]


@pytest.fixture
def config(settings: Settings, tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def fedkf(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """The installed command, in a process of its own."""
    command = [sys.executable, "-m", "fedkf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_json_prints_one_object_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    """The embedded data, no configuration: what the README promises."""
    done = fedkf(
        *("run", "--set", "algorithm.name=fedkf", "--set", "federation.rounds=3", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["algorithm"] == "fedkf"
    assert summary["rounds"] == 3
    folder = tmp_path / "runs" / "digits-fedkf-0"
    assert summary == json.loads((folder / "summary.json").read_text())
    assert "round 3/3" in done.stderr
    assert "left" in done.stderr


def test_help_and_mistakes_do_not_wait_for_torch() -> None:
    program = """
import sys
sys.argv = ["fedkf", *{arguments!r}]
from fedkf.cli import main
try:
    main()
except SystemExit as end:
    print(end.code, "torch" in sys.modules and hasattr(sys.modules["torch"], "__file__")
          if type(sys.modules.get("torch")).__name__ != "Deferred" else False)
"""
    for arguments, code in (
        (["--help"], "0"),
        (["run", "--set", "federation.rounds=x"], "2"),
        (["run", "--set", "algorithm.gamma=-1"], "2"),
        (["run", "nosuch"], "2"),
        (["config"], "0"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program.format(arguments=arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines()[-1] == f"{code} False", (arguments, done)


MISTAKES = [
    (["run", "digit"], "did you mean 'digits'?"),
    (["run", "--set", "federation.rounds"], "write it as KEY=VALUE"),
    (["run", "--set", "=3"], "write it as KEY=VALUE"),
    (["run", "--set", "federation.rouns=3"], "did you mean 'federation.rounds'?"),
    (["run", "--set", "algorithm.name=fedavgg"], "did you mean 'fedavg'?"),
    (["run", "--set", "data.alpha=.nan"], "data.alpha is nan"),
    (["run", "--set", "data.clients=2000"], "data.clients is 2000, more than the 1797 samples"),
    (["run", "--set", "data.source=npz"], "data.path is missing"),
    (["run", "--set", "data.source=npz", "--set", "data.path=gone.npz"], "no file gone.npz"),
    (["run", "--workers", "-1"], "engine.workers is -1"),
    (["run", "--engine", "spark"], "engine.name is 'spark'"),
    (["run", "--set", "engine.device=cuda"], "PyTorch finds no CUDA here"),
    (["run", "--set", "data.mean=[0.1, 0.2]"], "data.mean has 2 numbers"),
    (["config", "--set", "nonsense=1"], "no key 'nonsense'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES)
def test_a_mistake_gives_one_sentence_and_exit_code_2(
    cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_an_unknown_option_gives_exit_code_2(cli: CLI) -> None:
    assert cli("run", "--worker", "2").code == 2


def test_debug_shows_the_traceback() -> None:
    done = fedkf("run", "--set", "federation.rounds=x", "--debug")
    assert "Traceback" in done.stderr


BROKEN = """
from dataclasses import dataclass

from fedkf import Algorithm


@dataclass(frozen=True)
class Broken(Algorithm):
    name = "broken"

    def local_update(self, client, down):
        return {}[client.id]  # here
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_debug_shows_where_a_client_failed_in_whichever_process(
    config: Path, tmp_path: Path, workers: int
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    run = ("run", config, "--set", "algorithm.name=broken:Broken", "--workers", workers)
    plain = fedkf(*run, "--quiet", "--out", "a", cwd=tmp_path)
    assert plain.returncode == 1
    assert "Traceback" not in plain.stderr
    debug = fedkf(*run, "--quiet", "--out", "b", "--debug", cwd=tmp_path)
    assert debug.returncode == 1
    assert "return {}[client.id]  # here" in debug.stderr
    assert "broken.py" in debug.stderr


def test_version_and_config(cli: CLI) -> None:
    assert re.fullmatch(r"fedkf \d+\.\d+\.\d+\n", cli("--version").out)
    shown = yaml.safe_load(cli("config", "--set", "federation.lr=1e-2").out)
    assert shown["federation"]["lr"] == 0.01
    assert shown["algorithm"]["name"] == "fedkf"


def test_a_run_ends_with_its_table_and_says_where_its_files_are(
    cli: CLI, config: Path, tmp_path: Path
) -> None:
    code, out, err = cli("run", config, "--out", tmp_path / "run")
    assert code == 0
    assert "AMP %" in out
    assert f"files: {tmp_path / 'run'}" in out
    assert re.search(r"round 3/3 .*ACA AMP .*OCA AMP .*s/round", err)
    assert cli("run", config, "--out", tmp_path / "quiet", "--quiet").err == ""


def test_refused_uploads_are_named_on_the_screen(
    cli: CLI, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spoiler.py").write_text(
        "from fedkf.algorithms.fedavg import FedAvg\n"
        "class Spoiler(FedAvg):\n"
        "    name = 'spoiler'\n"
        "    everyone = False\n"
        "    def local_update(self, client, down):\n"
        "        upload = super().local_update(client, down)\n"
        "        if client.round == 2 and (self.everyone or client.id % 2):\n"
        "            upload['weights']['linear2.bias'][0] = float('nan')\n"
        "        return upload\n"
        "class Ruin(Spoiler):\n"
        "    everyone = True\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ("--set", "federation.fraction=1", "--quiet")
    code, _, err = cli("run", config, "--set", "algorithm.name=spoiler:Spoiler", *arguments)
    assert code == 0
    for client in (1, 3, 5):
        assert f"round 2: client {client} was left out: weights 'linear2.bias' holds NaN" in err
    code, _, err = cli("run", config, "--set", "algorithm.name=spoiler:Ruin", *arguments)
    assert code == 1
    assert "0 usable uploads of 6" in err
    assert err.count("\n") == 1


def test_ctrl_c_stops_the_run_resumably_with_exit_code_130(
    config: Path, tmp_path: Path, settings: Settings
) -> None:
    arguments = [config, "--out", tmp_path / "run", "--set", "federation.rounds=15", "--workers", 2]
    command = [sys.executable, "-m", "fedkf", "run", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rounds = tmp_path / "run" / "rounds.jsonl"
    while process.poll() is None and not (rounds.exists() and rounds.read_text().count("\n") > 2):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it too
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "add --resume to go on" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "stopped"
    again = fedkf("run", *arguments, "--resume", "--quiet")
    assert again.returncode == 0, again.stderr
    whole = fedkf("run", config, "--out", tmp_path / "whole", "--set", "federation.rounds=15")
    assert whole.returncode == 0
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")


def test_resuming_a_finished_run_prints_its_summary(cli: CLI, config: Path, tmp_path: Path) -> None:
    first = cli("run", config, "--out", tmp_path / "run", "--json")
    again = cli("run", config, "--out", tmp_path / "run", "--json", "--resume")
    assert again.code == 0
    assert json.loads(again.out) == json.loads(first.out)
    refused = cli("run", config, "--out", tmp_path / "run")
    assert (refused.code, refused.out) == (2, "")
    other = cli("run", config, "--out", tmp_path / "run", "--resume", "--set", "federation.lr=0.3")
    assert other.code == 2
    assert "federation.lr is 0.3 but the run began with 0.05" in other.err


def test_algorithms_are_measured(cli: CLI) -> None:
    rows = {row["name"]: row for row in json.loads(cli("algorithms", "--json").out)}
    assert {"fedavg", "fedkf", "fedkf-"} <= set(rows)
    assert rows["fedkf"]["bytes_down"] == 2
    assert rows["fedkf"]["fairness_aware"] is True
    assert rows["fedkf"]["discloses"] == ["weights"]
    assert rows["fedavg"]["passes"] == {
        "classifier_forward": 1,
        "classifier_backward": 1,
        "generator_forward": 0,
        "generator_backward": 0,
    }
    shown = cli("algorithms").out
    assert "3/3" in shown
    assert "fedkf-" in shown


def test_a_disk_that_refuses_gives_one_sentence_and_exit_code_1_and_loses_nothing(
    cli: CLI, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "models").write_text("in the way")
    code, out, err = cli("run", config, "--out", tmp_path / "run", "--quiet")
    assert (code, out) == (1, "")
    assert f"cannot write {tmp_path / 'run' / 'models'}" in err
    assert err.count("\n") == 1
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "failed"
    (tmp_path / "run" / "models").unlink()
    assert cli("run", config, "--out", tmp_path / "run", "--quiet", "--resume").code == 0
    assert cli("run", config, "--out", tmp_path / "whole", "--quiet").code == 0
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")


def test_a_presets_normalisation_that_is_lost_is_told(cli: CLI) -> None:
    other = ("--set", "data.source=npz", "--set", "data.path=mine.npz")
    code, out, err = cli("config", "cifar10", *other)
    assert code == 0
    assert "note: data.mean [0.4914, 0.4822, 0.4465] and data.std" in err
    assert "note" not in out
    assert cli("config", *other).err == ""  # no preset was asked for


def test_images_and_labels_of_the_users_own(cli: CLI, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 20, 24, 3), np.uint8)
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(40) % 4)
    sets = (
        "data.source=npz",
        f"data.path={tmp_path / 'mine.npz'}",
        "data.clients=4",
        "data.min_samples=1",
    )
    more = ("federation.rounds=2", "federation.local_epochs=1", "model.name=resnet8")
    arguments = [part for text in (*sets, *more) for part in ("--set", text)]
    code, out, err = cli("run", *arguments, "--out", tmp_path / "run", "--json")
    assert code == 0, err
    assert json.loads(out)["rounds"] == 2
