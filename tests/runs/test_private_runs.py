"""Runs under privacy: what they spend, when they end, and every way around that is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import Outcome, Settings, Unsteady, make_client, model_bytes

import fedkf
from fedkf import algorithms
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.runs.config import resolve
from fedkf.runs.privacy import check_algorithm, settled_turns
from fedkf.runs.setup import load_source, make_data, settle


def with_keys(settings: Settings, **sections: dict[str, Any]) -> Settings:
    return {**settings, **{name: {**settings.get(name, {}), **v} for name, v in sections.items()}}


@pytest.fixture
def private(settings: Settings) -> Settings:
    cheap: dict[str, Any] = {"preset": "lite", "width": 4, "batch_size": 4}
    return with_keys(
        settings, privacy={"epsilon": 8.0}, generator=cheap, federation={"local_epochs": 1}
    )


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
    again = fedkf.run(settings, out=tmp_path / "run", resume=True)
    assert again.history == result.history


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


class Curious(fedkf.Algorithm):
    """Looks at its samples and says nothing about it."""

    name: ClassVar[str] = "curious"

    def local_update(self, client: Any, down: Payload) -> Payload:
        client.start(down["weights"])
        client.log(mean=client.data.images.mean())
        return client.upload()  # type: ignore[no-any-return]


class Lying(Curious):
    name: ClassVar[str] = "lying"
    private: ClassVar[bool] = True


def test_an_algorithm_that_does_not_promise_is_refused_and_one_that_lies_gets_nothing(
    private: Settings,
) -> None:
    del private["algorithm"]
    with pytest.raises(UserError, match="Curious is refused: it does not promise"):
        fedkf.run(private, algorithm=Curious())
    with pytest.raises(fedkf.FedkfError, match=r"reached through client\.loss alone"):
        fedkf.run(private, algorithm=Lying())


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("privacy.epsilon", 0, "privacy.epsilon is 0; it must be greater than 0"),
        ("privacy.epsilon", -2, "privacy.epsilon is -2; it must be greater than 0"),
        ("privacy.delta", 0.5, "privacy.delta is 0.5; it must be below 1/"),
        ("privacy.delta", 1, "privacy.delta is 1; it must be less than 1"),
        ("privacy.clip", 0, "privacy.clip is 0; it must be greater than 0"),
        ("privacy.noise", 1e-155, "privacy.noise is 1e-155; it must be"),
        ("privacy.noise", 1e9, "privacy.noise is 1000000000.0; it must be"),
        ("privacy.noise", 0.01, "spent before the first round is over"),
        ("privacy.target", "client", "privacy.target is 'client'; it must be 'example'"),
        ("algorithm.name", "fedgen", "fedgen is refused: it sends label_counts"),
        ("algorithm.name", "qffl", "qffl is refused: it sends local_loss"),
        ("algorithm.name", "ccvr", "ccvr is refused: it sends"),
        ("algorithm.name", "afl", "afl is refused"),
        ("algorithm.name", "fedkf+", "fedkf+ is refused: it does not promise"),
        ("algorithm.name", "fedlc", "fedlc is refused: it does not promise"),
        ("algorithm.name", "scaffold", "scaffold is refused"),
        ("algorithm.name", "local", "local is refused"),
        ("generator.samples", "warp", "generator.samples warp is refused"),
        ("generator.samples", "own", "generator.samples own is refused"),
        ("data.class_weights", "balanced", "data.class_weights is refused"),
        ("data.task", "survival", "data.task survival is refused: its loss is not a sum"),
        ("data.scaling", "site", "data.scaling site is refused"),
        ("data.missing", "drop", "data.missing drop is refused: the number of rows left"),
        ("data.missing_values", "[M]", "data.missing_values is refused"),
        ("evaluation.personal", "finetune", "evaluation.personal is refused"),
        ("model.name", "conftest:Unsteady", "(BatchNorm2d) is refused: it mixes samples"),
    ],
)
def test_every_way_around_and_every_bad_setting_is_a_sentence(
    private: Settings,
    cli: Callable[..., Outcome],
    tmp_path: Path,
    key: str,
    value: Any,
    sentence: str,
) -> None:
    import yaml

    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(private))
    outcome = cli("run", file, "--set", f"{key}={value}", "--out", tmp_path / "run", "--quiet")
    assert outcome.code == 2
    assert sentence in outcome.err
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "run" / "rounds.jsonl").exists()


def test_a_scale_that_the_samples_agree_on_is_refused(private: Settings, tmp_path: Path) -> None:
    rows = "\n".join(f"{k},{k % 7},{'ab'[k % 2]}" for k in range(60))
    (tmp_path / "table.csv").write_text(f"x,z,y\n{rows}\n")
    about = {"source": "table", "path": str(tmp_path / "table.csv"), "target": "y", "clients": 2}
    about |= {"categories": {}, "indicators": []}
    settings = {**private, "data": about, "model": {"name": "mlp"}, "algorithm": {"name": "fedavg"}}
    with pytest.raises(UserError, match=r"data\.scaling federated is refused.*public knowledge"):
        fedkf.run(settings)
    settings["data"] = {**about, "mean": [30.0, 3.0], "std": [17.0, 2.0]}
    assert fedkf.run(settings, rounds=1).history[0]["privacy"]["clients"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, r"a table without data\.categories is refused"),
        ({"categories": {}, "categorical": ["z"]}, r"without data\.categories is refused"),
        ({"categories": {}}, r"a table without data\.indicators is refused"),
    ],
)
def test_what_a_table_is_made_of_is_given_rather_than_found(
    private: Settings, given: dict[str, Any], sentence: str
) -> None:
    """It is said before anything is read: there is no such file."""
    about = {"source": "table", "path": "nowhere.csv", "target": "y", **given}
    with pytest.raises(UserError, match=sentence):
        fedkf.run({**private, "data": about, "algorithm": {"name": "fedavg"}})


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


def test_unsteady_has_what_is_refused() -> None:
    assert any("BatchNorm" in type(m).__name__ for m in Unsteady().modules())


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


def test_a_unit_that_the_source_cannot_tell_is_refused(private: Settings) -> None:
    with pytest.raises(UserError, match="has no array 'patient'"):
        fedkf.run(with_keys(private, data={"unit": "patient"}))
    digits = {**private, "data": {"source": "digits", "unit": "patient"}}
    with pytest.raises(UserError, match=r"data\.unit is 'patient', which data\.source digits"):
        fedkf.run(digits)
    with pytest.raises(UserError, match=r"data\.unit is what privacy protects"):
        fedkf.run({**digits, "privacy": {}})


def test_who_may_run_under_privacy_is_known() -> None:
    """Whoever adds an algorithm decides; it is refused until it says that it may."""
    fine = []
    for name in algorithms.names():
        with contextlib.suppress(UserError):
            check_algorithm(name, algorithms.get(name))
            fine.append(name)
    assert fine == [
        *("fedadam", "fedavg", "fedavgm", "feddf", "fedexp", "fedkf", "fedkf-", "fedmgda"),
        *("fedprox", "fedstale", "fedvarp", "fedyogi", "mifa"),
    ]


class Twice(fedkf.Algorithm):
    """Asks for two turns in a round, of which one is paid for."""

    name: ClassVar[str] = "twice"

    def round(self, server: Any, state: Payload) -> Payload:
        return super().round(server, super().round(server, state))


def test_a_second_turn_in_a_round_is_refused(private: Settings) -> None:
    del private["algorithm"]
    with pytest.raises(UserError, match="Twice is refused"):
        fedkf.run(private, algorithm=Twice())
