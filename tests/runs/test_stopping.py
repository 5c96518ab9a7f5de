"""Runs that end early, go on later, keep models of earlier rounds, and are read before they end."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf.algorithms.ditto import Ditto
from fedkf.core.client import Client
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.records import Round
from fedkf.core.scores import Score
from fedkf.runs.integrity import check_run
from fedkf.runs.stopping import Patience


def last_line(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.mark.parametrize("algorithm", ["fedavg", "ccvr"])
def test_a_stopped_run_is_the_shorter_run(
    settings: Settings, tmp_path: Path, algorithm: str
) -> None:
    """CCVR changes its model after the last round, whichever that turns out to be."""
    common: dict[str, Any] = {"algorithm": algorithm, "evaluate_every": 5}
    stopped = fedkf.run(
        settings, out=tmp_path / "a", on_round=lambda r: r["round"] < 2, rounds=9, **common
    )
    planned = fedkf.run(settings, out=tmp_path / "b", rounds=2, **common)
    assert stopped.summary["rounds"] == 2
    assert stopped.summary["readouts"] == planned.summary["readouts"]
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    assert last_line(tmp_path / "a") == last_line(tmp_path / "b")
    assert check_run(tmp_path / "a") == []


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(settings: Settings, tmp_path: Path) -> None:
    fedkf.run(settings, rounds=4, out=tmp_path / "a", on_round=lambda r: r["round"] != 2)
    fedkf.run(settings, rounds=4, out=tmp_path / "a", resume=True)
    fedkf.run(settings, rounds=4, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


class Enough(fedkf.Observer):
    """Stops when any client's training loss is known, and remembers whose."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}
        self.rounds: list[int] = []

    def client_finished(self, reply: Any) -> None:
        self.losses[reply.call.client] = reply.upload.number("monitoring", "loss")
        raise fedkf.Stop

    def round_finished(self, record: Round) -> None:
        self.rounds.append(record.round)


def test_an_observer_of_clients_stops_a_run_at_the_end_of_the_round(settings: Settings) -> None:
    watcher = Enough()
    result = fedkf.run(settings, algorithm="fedavg", observers=[watcher])
    assert watcher.rounds == [1]
    assert sorted(watcher.losses) == list(result.rounds[0].active)


class Unwilling(fedkf.Observer):
    """Stops as soon as round 2 begins."""

    def round_started(self, round: int, active: Sequence[int]) -> None:
        if round == 2:
            raise fedkf.Stop


def test_a_run_that_is_stopped_as_a_round_begins_ends_after_it(
    settings: Settings, tmp_path: Path
) -> None:
    common: dict[str, Any] = {"algorithm": "fedavg", "out": tmp_path}
    result = fedkf.run(settings, rounds=9, observers=[Unwilling()], **common)
    assert [record.round for record in result.rounds] == [1, 2]
    assert result.summary["ended"] == "stopped"
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "finished"


class Crash(Exception):
    pass


def crash(record: dict[str, Any]) -> None:
    if record["round"] == 2:
        raise Crash


def test_a_run_is_resumed_with_fewer_rounds_but_none_is_undone(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(Crash):
        fedkf.run(settings, rounds=9, out=tmp_path / "a", on_round=crash)
    with pytest.raises(UserError, match=r"rounds is 1 but the run has done 2 rounds"):
        fedkf.run(settings, rounds=1, out=tmp_path / "a", resume=True)
    fedkf.run(settings, rounds=2, out=tmp_path / "a", resume=True)
    fedkf.run(settings, rounds=2, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


class Judging(Ditto):
    """Ditto whose clients, at times, fail to judge the models of their own."""

    name: ClassVar[str] = "judging"
    failing: ClassVar[bool] = False

    def evaluate(self, client: Client, down: Payload) -> Payload:
        if self.failing and client.state:
            raise RuntimeError("no test today")
        return super().evaluate(client, down)


def test_clients_that_fail_when_a_resumed_run_concludes_keep_their_private_states(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common: dict[str, Any] = {"algorithm": Judging(), "workers": 1, "evaluate_every": 50}
    with pytest.raises(Crash):
        fedkf.run(settings, out=tmp_path / "a", on_round=crash, **common)
    states = {p.name: p.read_bytes() for p in (tmp_path / "a/checkpoint").rglob("*-2.*")}
    assert states
    monkeypatch.setattr(Judging, "failing", True)
    fedkf.run(settings, rounds=2, out=tmp_path / "a", resume=True, **common)
    assert {p.name: p.read_bytes() for p in (tmp_path / "a/checkpoint").rglob("*-2.*")} == states
    monkeypatch.setattr(Judging, "failing", False)
    fedkf.run(settings, rounds=3, out=tmp_path / "a", resume=True, **common)
    fedkf.run(settings, rounds=3, out=tmp_path / "b", **common)
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


@pytest.mark.parametrize("more", [{}, {"overall.scope": "seen"}, {"overall.inactive": "global"}])
def test_a_run_that_has_not_ended_is_loaded_from_its_checkpoint(
    settings: Settings, tmp_path: Path, more: dict[str, Any]
) -> None:
    with pytest.raises(Crash):
        fedkf.run(settings, rounds=9, out=tmp_path / "a", on_round=crash, **more)
    before = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    whole = fedkf.run(settings, rounds=2, **more)
    x = torch.rand(2, 1, 16, 16)
    for readout in ("aca", "oca"):
        model = fedkf.load(tmp_path / "a", readout)
        assert torch.equal(model(x), whole.models[readout](x))
    assert {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()} == before


def test_models_of_the_best_and_of_every_second_round_are_kept(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, rounds=2, out=tmp_path / "a", keep=["best", 2])
    result = fedkf.run(settings, rounds=5, out=tmp_path / "a", keep=["best", 2], resume=True)
    kept = tmp_path / "a" / "kept"
    assert sorted(p.name for p in kept.iterdir()) == ["best", "round-2", "round-4"]
    x = torch.rand(2, 1, 16, 16)
    best = result.summary["best"]["oca"]["round"]
    assert json.loads((kept / "best" / "model.json").read_text())["rounds"]["oca"] == best
    shorter = fedkf.run(settings, rounds=best)
    assert torch.equal(fedkf.load(kept / "best")(x), shorter.models["oca"](x))
    assert check_run(tmp_path / "a") == []
    (kept / "round-4" / "oca.safetensors").write_bytes(b"")
    assert "round-4" in check_run(tmp_path / "a")[0]


def test_the_best_of_an_error_is_the_smallest(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3)).astype(np.float32)
    clients = {name: (x[k::2], 5 * x[k::2, 0]) for k, name in enumerate("ab")}
    more: dict[str, Any] = {"workers": 0, "algorithm": "fedavg", "model": "mlp", "lr": 0.02}
    more |= {"task": "regression", "evaluation.metric": "rmse", "keep": "best"}
    fedkf.run(clients=clients, rounds=2, out=tmp_path / "a", **more)
    result = fedkf.run(clients=clients, rounds=4, out=tmp_path / "a", resume=True, **more)
    scores = [record["readouts"]["oca"]["amp"] for record in result.history]
    assert scores == sorted(scores, reverse=True)  # it learns, so that the last is the best
    card = json.loads((tmp_path / "a" / "kept" / "best" / "model.json").read_text())
    assert card["rounds"]["oca"] == result.summary["best"]["oca"]["round"] == 4


def test_what_cannot_be_kept_is_told(settings: Settings) -> None:
    with pytest.raises(UserError, match=r"output\.keep is 'bets'; it must be best, a number"):
        fedkf.run(settings, keep="bets")


def rounds_with(*amps: float | None) -> list[Round]:
    scores = [None if a is None else {"oca": Score({"amp": a}, [0], [a])} for a in amps]
    return [Round(k, readouts=score) for k, score in enumerate(scores, 1)]


@pytest.mark.parametrize(
    ("amps", "ends"),
    [
        ((0.5, 0.4, 0.4), True),
        ((0.5, 0.5, 0.5), True),  # as good is not better
        ((0.5, 0.4, 0.6), False),
        ((0.5, None, 0.4), False),  # a round without evaluation says nothing
        ((0.5, None, 0.4, None, 0.3), True),
        ((None, None), False),
    ],
)
def test_patience_counts_evaluated_rounds_since_the_best(
    amps: tuple[float | None, ...], ends: bool
) -> None:
    assert Patience(2, rounds_with(*amps)).exhausted is ends
    assert not Patience(None, rounds_with(*amps)).exhausted


def test_patience_keeps_no_rounds() -> None:
    """Of 10,000 clients each holds half a megabyte of accuracies."""
    patience = Patience(2, rounds_with(0.5))
    (record,) = rounds_with(0.6)
    patience.round_finished(record)
    kept = weakref.ref(record)
    del record
    assert kept() is None


def test_patience_ends_a_run_also_after_an_interruption(settings: Settings, tmp_path: Path) -> None:
    common: dict[str, Any] = {"rounds": 30, "patience": 2, "lr": 1e-6}  # nothing is ever better
    whole = fedkf.run(settings, out=tmp_path / "a", **common)
    assert whole.summary["rounds"] == 3
    with pytest.raises(Crash):
        fedkf.run(settings, out=tmp_path / "b", on_round=crash, **common)
    again = fedkf.run(settings, out=tmp_path / "b", resume=True, **common)
    assert again.summary["rounds"] == 3
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    seen: list[Any] = []  # it has ended: nothing is left to do
    fedkf.run(settings, out=tmp_path / "b", resume=True, on_round=seen.append, **common)
    assert seen == []


def crash_in_3(record: dict[str, Any]) -> None:
    if record["round"] == 3:
        raise Crash


class CrashAtTheEnd(fedkf.Observer):
    """Raises when the last round is committed and nothing of the end is written yet."""

    def run_ended(self) -> None:
        raise Crash


@pytest.mark.parametrize("algorithm", ["fedavg", "ccvr"])
@pytest.mark.parametrize(
    "crashing", [{"on_round": crash_in_3}, {"observers": [CrashAtTheEnd()]}], ids=["round", "end"]
)
def test_patience_that_was_spent_before_a_crash_ends_the_run_there(
    settings: Settings, tmp_path: Path, algorithm: str, crashing: dict[str, Any]
) -> None:
    common: dict[str, Any] = {"rounds": 30, "patience": 2, "lr": 1e-6, "algorithm": algorithm}
    whole = fedkf.run(settings, out=tmp_path / "a", **common)
    assert (whole.summary["rounds"], whole.summary["ended"]) == (3, "patience")
    with pytest.raises(Crash):
        fedkf.run(settings, out=tmp_path / "b", **crashing, **common)
    again = fedkf.run(settings, out=tmp_path / "b", resume=True, **common)
    assert (again.summary["rounds"], again.summary["ended"]) == (3, "patience")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    assert last_line(tmp_path / "a") == last_line(tmp_path / "b")
    ledgers = [(tmp_path / name / "ledger.json").read_bytes() for name in "ab"]
    assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize("algorithm", ["fedavg", "ccvr"])
def test_a_run_that_patience_ended_has_all_that_a_last_round_has(
    settings: Settings, tmp_path: Path, algorithm: str
) -> None:
    common: dict[str, Any] = {"algorithm": algorithm, "lr": 1e-6, "keep": 3}
    common["data"] = {"metrics": ["sensitivity", "ece"]}
    ended = fedkf.run(settings, out=tmp_path / "a", rounds=30, patience=2, **common)
    planned = fedkf.run(settings, out=tmp_path / "b", rounds=3, **common)
    for found in ended.summary["sites"].values():
        assert {"intervals", "support", "sensitivity"} <= set(found)
    assert ended.summary["sites"] == planned.summary["sites"]
    assert last_line(tmp_path / "a") == last_line(tmp_path / "b")
    kept = [
        (tmp_path / name / "kept" / "round-3" / "aca.safetensors").read_bytes() for name in "ab"
    ]
    assert kept[0] == kept[1]


def test_a_summary_says_what_ended_its_run(settings: Settings, tmp_path: Path) -> None:
    stopped = fedkf.run(settings, algorithm="fedavg", on_round=lambda record: False)
    assert (stopped.summary["rounds"], stopped.summary["ended"]) == (1, "stopped")
    last = fedkf.run(settings, algorithm="fedavg", on_round=lambda record: record["round"] < 3)
    assert (last.summary["rounds"], last.summary["ended"]) == (3, "rounds")


def test_a_finished_run_without_its_checkpoint_is_not_begun_anew(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="is finished and its checkpoint is gone"):
        fedkf.run(settings, algorithm="fedavg", rounds=5, out=tmp_path / "run", resume=True)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    again = fedkf.run(settings, algorithm="fedavg", out=tmp_path / "run", resume=True)
    assert again.summary["rounds"] == 3
