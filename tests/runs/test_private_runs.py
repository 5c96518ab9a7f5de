"""Runs under privacy: what they spend, and when they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Settings, make_client, model_bytes
from lab_private import QUIET, made_private, with_keys

import fedkf
from fedkf.core.client import Reply
from fedkf.core.errors import UserError
from fedkf.core.privacy import Mechanism
from fedkf.runs.accounting import Accounts
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute
from fedkf.runs.privacy import settled_turns
from fedkf.runs.setup import load_source, make_data, settle
from fedkf.runs.suite import Plan, answers, records


@pytest.fixture
def private(settings: Settings) -> Settings:
    return made_private(settings)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "fedkf", "fedkf-"])
def test_everyone_stays_within_the_budget_and_every_round_says_what_was_spent(
    private: Settings, algorithm: str
) -> None:
    result = fedkf.run(private, algorithm=algorithm, rounds=2)
    last: dict[int, float] = {}
    for record in result.history:
        spent = record["privacy"]
        assert spent["clients"] == record["active"]
        for client, epsilon in zip(spent["clients"], spent["epsilon"], strict=True):
            assert last.get(client, 0.0) < epsilon <= 8.0
            last[client] = epsilon
    assert "loss" not in result.history[0]["losses"]
    told = f"no client has spent more than ε = {max(last.values()):.3g} with δ = 1e-05"
    assert str(result).splitlines()[-1] == f"privacy: {told}"
    assert told in result._repr_html_()


@pytest.mark.parametrize("samples", ["trained", "noise"])
def test_without_those_fedkf_plus_is_private(private: Settings, samples: str) -> None:
    settings = with_keys(
        {**private, "algorithm": {**QUIET, "first_round": "distil"}}, generator={"samples": samples}
    )
    history = fedkf.run(settings, rounds=2).history
    assert 0 < history[1]["privacy"]["epsilon"][0] <= 8.0
    assert history[0]["losses"]["kl"] > 1e-7
    assert "loss" not in history[0]["losses"]
    with pytest.raises(UserError, match=r"generator\.samples warp is refused"):
        fedkf.run(with_keys(settings, generator={"samples": "warp"}))


def test_without_a_pool_it_is_private_fedavg_byte_for_byte(
    private: Settings, tmp_path: Path
) -> None:
    none = {"gamma": 0.0, "beta": 0.0, "drive": 0.0}  # nobody is asked of labels then
    off = {"name": "fedkf+", **none}
    fedkf.run({**private, "algorithm": off}, out=tmp_path / "plus", rounds=2)
    fedkf.run({**private, "algorithm": {"name": "fedavg"}}, out=tmp_path / "fedavg", rounds=2)
    assert model_bytes(tmp_path / "plus") == model_bytes(tmp_path / "fedavg")


def test_workers_make_no_difference_and_a_broken_run_ends_as_a_whole_one(
    private: Settings, tmp_path: Path
) -> None:
    def explode(record: dict[str, object]) -> None:
        if record["round"] == 2:
            raise RuntimeError("boom")

    whole = fedkf.run(private, out=tmp_path / "whole", workers=2)
    with pytest.raises(RuntimeError, match="boom"):
        fedkf.run(private, out=tmp_path / "broken", on_round=explode)
    broken = fedkf.run(private, out=tmp_path / "broken", resume=True)
    assert model_bytes(tmp_path / "broken") == model_bytes(tmp_path / "whole")
    assert [r["privacy"] for r in broken.history] == [r["privacy"] for r in whole.history]


class Killed(fedkf.Observer):
    """Ends its process as kill -9 does, in the middle of round 2."""

    def client_finished(self, reply: Reply) -> None:
        if reply.call.round == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("secure", [False, True])
def test_killed_and_resumed_it_has_spent_the_same_for_the_same_models(
    private: Settings, tmp_path: Path, secure: bool
) -> None:
    config = resolve(private, {"transport.secure": secure, "engine.workers": 0})
    whole = execute(config, tmp_path / "whole")
    pid = os.fork()
    if pid == 0:
        try:
            execute(config, tmp_path / "killed", observers=[Killed()])
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    killed = execute(config, tmp_path / "killed", resume=True)
    assert model_bytes(tmp_path / "killed") == model_bytes(tmp_path / "whole")
    assert [r["privacy"] for r in killed.history] == [r["privacy"] for r in whole.history]


def test_who_has_spent_its_budget_is_not_asked_again_and_the_run_ends_when_all_have(
    private: Settings, tmp_path: Path
) -> None:
    settings = with_keys(private, federation={"rounds": 9}, privacy={"epsilon": 8.0, "turns": 2})
    settings["algorithm"] = {"name": "fedavg"}
    result = fedkf.run(settings, out=tmp_path / "run")
    turns = [client for record in result.history for client in record["active"]]
    assert {turns.count(client) for client in range(6)} == {2}
    assert 4 <= len(result.history) < 9
    assert result.summary["rounds"] == len(result.history)
    assert result.summary["ended"] == "budget"
    again = fedkf.run(settings, out=tmp_path / "run", resume=True)
    assert again.history == result.history
    shutil.rmtree(tmp_path / "run" / "checkpoint")  # as a sweep leaves it
    again = fedkf.run(settings, out=tmp_path / "run", resume=True)
    assert again.history == result.history


def test_a_run_that_budgets_ended_answers_its_plan(private: Settings, tmp_path: Path) -> None:
    """Also where its summary is of a time when summaries did not say what ended a run."""
    settings = with_keys(private, federation={"rounds": 9}, privacy={"epsilon": 8.0, "turns": 1})
    config = resolve({**settings, "algorithm": {"name": "fedavg"}})
    plan = Plan("fedavg", {}, config)
    execute(config, tmp_path / "run")
    assert answers(plan, records([tmp_path])) is not None
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary.pop("ended") == "budget"
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    assert answers(plan, records([tmp_path])) is not None
    lines = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "rounds.jsonl").write_text(lines[0])  # others had a turn to come
    assert answers(plan, records([tmp_path])) is None


def test_a_finished_private_run_answers_its_plan_and_is_resumed_as_it_was_asked_for(
    private: Settings, tmp_path: Path
) -> None:
    """For how many turns the noise was made is settled when the run begins."""
    config = resolve({**private, "algorithm": {"name": "fedavg"}})
    whole = execute(config, tmp_path / "run")
    assert answers(Plan("fedavg", {}, config), records([tmp_path])) is not None
    assert execute(config, tmp_path / "run", resume=True).summary == whole.summary
    other = resolve({**private, "algorithm": {"name": "fedavg"}}, {"privacy.turns": 77})
    with pytest.raises(UserError, match=r"privacy\.turns is 77 but the run began with"):
        execute(other, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("clients", "fraction", "oversample", "turns"),
    [
        (2, 0.01, 1.0, 25),  # one of two in each of 40 rounds, although C·K is far below one
        (10, 0.2, 1.0, 10),
        (10, 0.2, 1.5, 15),
        (3, 1.0, 2.0, 40),
    ],
)
def test_noise_is_made_for_as_many_rounds_as_a_client_is_in(
    clients: int, fraction: float, oversample: float, turns: int
) -> None:
    about = {"rounds": 40, "fraction": fraction, "oversample": oversample}
    config = resolve({"federation": about, "privacy": {"epsilon": 8.0}})
    assert settled_turns(config, clients)["privacy"].turns == turns


def test_the_guarantee_does_not_change_runs_without_it(settings: Settings) -> None:
    assert "privacy" not in fedkf.run(settings).history[0]


def test_no_sample_is_filled_with_what_others_measured(tmp_path: Path) -> None:
    """One row of a site changes; what is made of every other row stays as it was."""

    def inputs(first: str, **privacy: float) -> Any:
        rows = [f"{first},1,a", ",2,b", *(f"{k},{k % 7},{'ab'[k % 2]}" for k in range(20))]
        (tmp_path / "table.csv").write_text("\n".join(["x,z,y", *rows]))
        about = {"source": "table", "path": str(tmp_path / "table.csv"), "target": "y"}
        given = {"mean": [30.0, 3.0], "std": [10.0, 2.0], "scaling": "none", "missing": "mean"}
        one = {"partition": "iid", "clients": 1, "train_fraction": 1.0, "categories": {}}
        keys = {"data": {**about, **given, **one}, "model": {"name": "mlp"}, "privacy": privacy}
        config = resolve(keys, {"algorithm.name": "fedavg"})
        source = load_source(config)
        data = make_data(settle(config, source), source)
        assert data.places is not None
        return data.images[np.argsort(data.places[0]).tolist()]

    one, other = inputs("5", epsilon=8.0), inputs("5000", epsilon=8.0)
    assert not one[0].equal(other[0])
    assert one[1:].equal(other[1:])
    assert one[1].tolist() == [0.0, -0.5]  # the public mean, where nothing was measured
    assert not inputs("5")[1:].equal(inputs("5000")[1:])  # as ever, where nobody minds


def test_a_patient_with_many_samples_is_protected_as_one(private: Settings, tmp_path: Path) -> None:
    """Whoever has all of a client's samples is in a batch with all of them or with none."""
    with np.load(private["data"]["path"]) as found:
        arrays = dict(found)
    patients = np.array([f"p{k % 18}" for k in range(90)])
    np.savez(tmp_path / "patients.npz", **arrays, patient=patients)
    about = {"path": str(tmp_path / "patients.npz"), "unit": "patient", "partition": "iid"}
    settings = with_keys(private, data={**about, "clients": 2})
    settings["algorithm"] = {"name": "fedavg"}
    assert fedkf.run(settings, rounds=1).history[0]["privacy"]["clients"]
    client = make_client(settings, round=1)
    units = client.private.units if client.private else None
    assert units is not None
    assert sorted(set(units.tolist())) == list(range(int(units.max()) + 1))
    for x, _ in client.batches():
        index = x.open()  # type: ignore[attr-defined]
        for unit in set(units[index].tolist()):
            assert int((units == unit).sum()) == int((units[index] == unit).sum())


def test_a_checkpoint_without_an_account_is_not_gone_on_with() -> None:
    accounts = Accounts({0: Mechanism(2.0, 0.2, 10)}, 1e-5, 8.0)
    with pytest.raises(fedkf.FedkfError, match="does not say what clients have spent"):
        accounts.restore(None)


def of_precision(kind: torch.dtype) -> type[torch.nn.Module]:
    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.nn.Linear(256, 3, dtype=kind)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(x.flatten(1).to(kind))  # type: ignore[no-any-return]

    return Flat


def test_double_precision_trains_and_half_is_refused(private: Settings) -> None:
    settings = {**private, "algorithm": {"name": "fedavg"}}
    result = fedkf.run(settings, model=of_precision(torch.float64), rounds=1)
    assert result.weights["aca"]["last.weight"].dtype == torch.float64
    with pytest.raises(UserError, match=r"'last\.weight' in bfloat16; privacy needs float32"):
        fedkf.run(settings, model=of_precision(torch.bfloat16), rounds=1)
