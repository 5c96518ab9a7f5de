"""Secure sums in whole runs: workers, kill -9, models with buffers, what is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Outcome, Settings, Unsteady, model_bytes
from lab_secure import PHASES

import fedkf
from fedkf.core.client import Reply
from fedkf.core.errors import UserError
from fedkf.core.federation import Observer
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute

CLI = Callable[..., Outcome]
SECURE = {"transport.secure": True, "federation.rounds": 2}


class KilledIn(Observer):
    """Ends its process as kill -9 does, when a client of round 2 has answered in a phase."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def client_finished(self, reply: Reply) -> None:
        if (reply.call.round, reply.call.step) == (2, self.phase):
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def whole(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A secure run of FedKF with two workers that was left alone."""
    from conftest import tiny

    folder = tmp_path_factory.mktemp("whole")
    execute(resolve(tiny(npz), {**SECURE, "engine.workers": 2}), folder)
    return folder


def test_workers_make_no_difference(settings: Settings, whole: Path, tmp_path: Path) -> None:
    execute(resolve(settings, {**SECURE, "engine.workers": 0}), tmp_path / "0")
    assert model_bytes(tmp_path / "0") == model_bytes(whole)


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_and_resumed_it_ends_with_the_same_models(
    phase: str, settings: Settings, whole: Path, tmp_path: Path
) -> None:
    config = resolve(settings, {**SECURE, "engine.workers": 0})
    pid = os.fork()
    if pid == 0:
        try:
            execute(config, tmp_path / "killed", observers=[KilledIn(phase)])
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    result = execute(config, tmp_path / "killed", resume=True)
    assert len(result.history) == 2
    assert model_bytes(tmp_path / "killed") == model_bytes(whole)


def test_buffers_are_averaged_as_weights(settings: Settings) -> None:
    run: Any = partial(fedkf.run, settings, model=Unsteady, algorithm="fedavg", workers=0)
    plain, secure = run(), run(secure=True, exact=True)
    for readout in ("aca", "oca"):
        ours, theirs = secure.weights[readout], plain.weights[readout]
        moved = [name for name in ours if ours[name].is_floating_point()]
        assert "body.1.running_var" in moved
        assert max(float((ours[n] - theirs[n]).abs().max()) for n in moved) <= 1e-5
        assert ours["body.1.num_batches_tracked"] == 0  # no sum has integers: they stay as sent


def test_the_record_says_what_left_and_holds_nothing_of_single_clients(whole: Path) -> None:
    ledger = yaml.safe_load((whole / "ledger.json").read_text())
    hidden = ["mask_shares", "masked_weights", "public_keys", "sealed_shares"]
    assert ledger["disclosed"] == sorted(["monitoring", "sizes", *hidden])
    assert ledger["leakage"] == []
    assert "weights" not in ledger["training"]["up"]
    assert "monitoring" not in ledger["training"]["up"]
    assert not list((whole / "checkpoint").glob("slots-*/*"))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"algorithm.name": "qffl"}, "but qffl needs single uploads on the server"),
        ({"algorithm.name": "scaffold"}, "but scaffold needs single uploads"),
        ({"algorithm.name": "fedkf-server"}, "but fedkf-server needs single uploads"),
        ({"federation.defence": "median"}, "federation.defence is 'median', which works on single"),
        ({"transport.uplink": "delta8"}, "transport.uplink is 'delta8', which works on single"),
        ({"overall.max_staleness": 3}, "overall.max_staleness is 3, which works on single"),
        ({"overall.inactive": "global"}, "overall.inactive is 'global', which works on single"),
        ({"federation.oversample": 1.5}, "federation.oversample is 1.5, which works on single"),
        ({"transport.threshold": 0.0}, "transport.threshold is 0.0; it must be greater than 0"),
        ({"transport.threshold": 1.2}, "transport.threshold is 1.2; it must be less than or equal"),
    ],
)
def test_what_needs_single_uploads_is_refused(
    keys: dict[str, Any], sentence: str, settings: Settings
) -> None:
    with pytest.raises(UserError, match=sentence.replace("'", ".")):
        resolve(settings, {**SECURE, **keys})


@pytest.mark.parametrize("fraction", [0.1, 0.3])
def test_rounds_too_small_to_hide_anybody_are_refused(
    fraction: float, cli: CLI, settings: Settings, tmp_path: Path
) -> None:
    settings["federation"]["fraction"] = fraction
    settings["transport"] = {"secure": True}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
    ended = cli("run", tmp_path / "c.yaml", "--out", tmp_path / "run")
    assert ended.code == 2
    assert "of the clients, and a sum hides its parts only among three or more" in ended.err


def test_an_algorithm_that_needs_single_uploads_ends_with_code_2(
    cli: CLI, settings: Settings, tmp_path: Path
) -> None:
    settings["transport"] = {"secure": True}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
    ended = cli("run", tmp_path / "c.yaml", "--set", "algorithm.name=qffl", "--out", tmp_path / "r")
    assert ended.code == 2
    assert "but qffl needs single uploads on the server" in ended.err


def test_a_class_that_changes_the_aggregation_says_anew_that_sums_are_enough() -> None:
    class Doubled(fedkf.FedAvg):
        def aggregate(self, server: Any, state: Any, uploads: Any) -> Any:
            return super().aggregate(server, state, [*uploads, *uploads])

    assert fedkf.FedAvg.takes_sums()
    assert not Doubled.takes_sums()
    Doubled.sums_only = True
    assert Doubled.takes_sums()


def test_a_round_with_two_clients_that_happen_to_be_there_is_left_out(
    settings: Settings, tmp_path: Path
) -> None:
    settings["federation"].update(availability=0.5)
    keys = {"algorithm.name": "fedavg", "federation.rounds": 6}
    config = resolve(settings, {**SECURE, **keys})
    history = execute(config, tmp_path / "run").history
    small = [record for record in history if 0 < len(record["active"]) < 3]
    assert small
    for record in small:
        assert [r["client"] for r in record["refused"]] == record["active"]
        assert "would not hide a client" in record["refused"][0]["reason"]
        assert record["bytes"] == {"down": 0, "up": 0}
