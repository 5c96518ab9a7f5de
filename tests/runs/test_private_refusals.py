"""Every way around privacy is refused, and every bad setting is a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import Outcome, Settings, Unsteady
from lab_private import QUIET, made_private, with_keys

import fedkf
from fedkf import algorithms
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.runs.privacy import check_algorithm


@pytest.fixture
def private(settings: Settings) -> Settings:
    return made_private(settings)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"beta": 1.0}, "algorithm.beta 1"),
        ({"scarcity": 2.0}, "algorithm.scarcity 2"),
        ({"warped": 0.25}, "algorithm.warped 0.25"),
        ({"gamma": 0.0, "beta": 1.0, "warped": 0.5}, "algorithm.beta 1"),
    ],
)
def test_fedkf_plus_names_the_options_that_use_samples(
    private: Settings, keys: dict[str, float], named: str
) -> None:
    settings = {**private, "algorithm": {**QUIET, **keys}}
    with pytest.raises(UserError, match=rf"fedkf\+ with {named} is refused"):
        fedkf.run(settings)


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
        ("privacy.clip", 0, "privacy.clip is 0; it must be"),
        ("privacy.clip", 1.2e-45, "privacy.clip is 1.2e-45; it must be"),  # σ·clip would be 0
        ("privacy.clip", 1e30, "privacy.clip is 1e+30; it must be"),
        ("privacy.noise", 1e-155, "privacy.noise is 1e-155; it must be"),
        ("privacy.noise", 1e9, "privacy.noise is 1000000000.0; it must be"),
        ("privacy.noise", 0.01, "spent before the first round is over"),
        ("privacy.target", "client", "privacy.target is 'client'; it must be 'example'"),
        ("algorithm.name", "fedgen", "fedgen is refused: it sends label_counts"),
        ("algorithm.name", "qffl", "qffl is refused: it sends local_loss"),
        ("algorithm.name", "ccvr", "ccvr is refused: it sends"),
        ("algorithm.name", "afl", "afl is refused"),
        (
            "algorithm.name",
            "fedkf+",
            "fedkf+ with algorithm.beta 1.5 and algorithm.warped 0.5 is "
            "refused: samples would be used beside the noisy gradients; 0 turns that off",
        ),
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
        ("federation.patience", 2, "federation.patience is refused: which model is handed on"),
        ("output.keep", "best", "output.keep best is refused: which model is handed on"),
        ("data.proxy", 0.2, "data.proxy as a share is refused: samples of the source"),
        ("federation.precision", "bfloat16", "it must be float32"),
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


def test_unsteady_has_what_is_refused() -> None:
    assert any("BatchNorm" in type(m).__name__ for m in Unsteady().modules())


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
        *("fedadam", "fedavg", "fedavgm", "feddf", "fedexp", "fedkf", "fedkf+"),
        *("fedkf-", "fedmgda", "fedprox", "fedstale", "fedvarp", "fedyogi", "mifa"),
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


class Greedy(fedkf.Algorithm):
    """Asks for turns that nobody paid for where no class has to promise anything."""

    name: ClassVar[str] = "greedy"
    others: ClassVar[bool] = False

    def aggregate(self, server: Any, state: Payload, uploads: Any) -> Payload:
        new = super().aggregate(server, state, uploads)
        who = [k for k in server.sizes if (k in server.active) != self.others]
        again = server.exchange("local_update", who, self.broadcast(server, new))
        return super().aggregate(server, new, again)


class Reaching(Greedy):
    name: ClassVar[str] = "reaching"
    others: ClassVar[bool] = True


@pytest.mark.parametrize("algorithm", [Greedy, Reaching])
def test_nobody_takes_a_turn_that_was_not_paid_for(
    private: Settings, algorithm: type[fedkf.Algorithm]
) -> None:
    del private["algorithm"]
    with pytest.raises(UserError, match="local_update was to be another for client"):
        fedkf.run(private, algorithm=algorithm())
    private["privacy"] = {}
    assert len(fedkf.run(private, algorithm=algorithm(), rounds=1).history) == 1
