"""An engine of the user's own, named as package.module:object."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Outcome, Settings, model_bytes

CLI = Callable[..., Outcome]

MODULE = '''
"""An engine that serves the clients backwards and says what it did."""

import json
from pathlib import Path



class Backwards:
    def __init__(self, host, population, settings):
        self.host, self.settings, self.steps = host, settings, []
        settings.say(f"{len(population.sizes)} clients, {settings.workers} workers")

    def exchange(self, calls, down, accept):
        for call in reversed(calls):
            self.steps.append(call.step)
            accept(self.host.perform(call, down))

    def evaluate(self, readouts, clients):
        return None  # only clients can

    def close(self):
        Path("steps.json").write_text(json.dumps(self.steps))


def broken(host, population, settings):
    raise OSError("no cable")


def useless(host, population, settings):
    return object()
'''


@pytest.fixture
def config(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, in a folder that also holds a module with engines."""
    (tmp_path / "backwards.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_it_carries_a_run_to_the_same_models(cli: CLI, config: Path, tmp_path: Path) -> None:
    usual = cli("run", config, "--out", "usual", "--workers", "0", "--quiet")
    assert usual.code == 0, usual.err
    own = cli("run", config, "--out", "own", "--engine", "backwards:Backwards", "--workers", "3")
    assert own.code == 0, own.err
    assert "6 clients, 3 workers" in own.err
    assert model_bytes(tmp_path / "own") == model_bytes(tmp_path / "usual")
    steps = json.loads((tmp_path / "steps.json").read_text())
    assert set(steps) == {"local_update", "evaluate"}
    assert steps.count("local_update") == 9
    written = yaml.safe_load((tmp_path / "own" / "config.yaml").read_text())
    assert written["engine"]["name"] == "backwards:Backwards"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lokal", "engine.name is 'lokal'; it must be local, flower or package.module:object"),
        ("nowhere:Engine", "engine.name: 'nowhere:Engine' cannot be imported"),
        ("backwards:Forwards", "engine.name: 'backwards' has no 'Forwards'"),
        ("backwards:broken", "engine.name: backwards:broken raised OSError: no cable"),
        ("backwards:useless", "engine.name: what backwards:useless makes has no exchange"),
    ],
)
def test_what_is_wrong_with_it_is_said_in_a_sentence(
    cli: CLI, config: Path, name: str, sentence: str
) -> None:
    code, out, err = cli("run", config, "--out", "run", "--engine", name, "--quiet")
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
