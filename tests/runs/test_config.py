"""The configuration: what combines with what, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkf.core.errors import UserError
from fedkf.runs import config as configuration
from fedkf.runs.config import parse_set, presets, read, resolve, to_dict, to_yaml
from fedkf.runs.defaults import OWN
from fedkf.runs.schema import Config


@pytest.mark.parametrize("name", presets())
def test_every_preset_resolves_and_its_resolved_form_is_itself_a_configuration(name: str) -> None:
    config = resolve(read(name)[0])
    again = resolve(yaml.safe_load(to_yaml(config)))
    assert again == config


def test_every_key_is_commented() -> None:
    lines = to_yaml(resolve(read("digits")[0])).splitlines()
    assert all("#" in line for line in lines if line)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("2", 2),
        ("0.5", 0.5),
        ("[0.1, 0.2]", [0.1, 0.2]),
        ("null", None),
        (">0", ">0"),
    ],
)
def test_set_reads_yaml_values(text: str, value: Any) -> None:
    assert parse_set([f"a.b={text}"]) == {"a.b": value}


def test_choosing_an_algorithm_drops_the_others_hyperparameters() -> None:
    content = {
        "algorithm": {"name": "fedkf", "gamma": 0.5},
        "algorithms": {"fedkf": {"lambda1": 0.7}, "fedkf-": {"lambda1": 0.9}},
    }
    kept = resolve(content).algorithm.model_dump()
    assert (kept["gamma"], kept["lambda1"]) == (0.5, 0.7)
    other = resolve(content, {"algorithm.name": "fedkf-"}).algorithm.model_dump()
    assert (other["gamma"], other["lambda1"], other["teacher"]) == (1.0, 0.9, "aca")
    assert resolve(content, {"algorithm.name": "fedavg"}).algorithm.model_dump() == {
        "name": "fedavg"
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"fedprx": {"mu": 3}}, "algorithms: no algorithm 'fedprx'; did you mean 'fedprox'?"),
        ({"fedprox": 7}, "algorithms.fedprox is 7; it must hold hyperparameters"),
        ({"fedprox": {3: 4}}, "algorithms.fedprox is {3: 4}; it must hold hyperparameters"),
        ({5: {}}, "algorithms: no algorithm 5"),
        ("fedprox", "algorithms must hold keys"),
    ],
)
def test_settings_of_an_algorithm_that_there_is_not_are_refused(
    content: Any, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        resolve({"algorithm": "fedavg", "algorithms": content})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_of_an_algorithm_of_the_users_own_are_taken() -> None:
    own = "fedkf.algorithms.fedprox:FedProx"
    content: dict[str, Any] = {"algorithms": {own: {"mu": 0.3}, "elsewhere:Mine": {"a": 1}}}
    content["algorithms"]["fedavg"] = None
    assert resolve(content, {"algorithm.name": own}).algorithm.model_dump()["mu"] == 0.3
    assert resolve(content, {"algorithm.name": "fedavg"}).algorithm.name == "fedavg"


def test_a_file_is_read_and_its_provenance_ignored(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("federation: {rounds: 7}\nprovenance: {anything: here}\n")
    content, name = read(path)
    assert name == "mine"
    assert resolve(content).federation.rounds == 7


@pytest.mark.parametrize("names", [["yes", "no"], ["no", "yes"]])
def test_of_two_names_the_one_that_is_positive_is_the_second(names: list[str]) -> None:
    data = resolve({"data": {"class_names": names, "positive": "yes"}}).data
    assert data.class_names == ["no", "yes"]


def test_codes_for_what_is_missing_may_be_numbers() -> None:
    assert resolve({"data": {"missing_values": [-9, "NA", 99.5]}}).data.missing_values == [
        "-9",
        "NA",
        "99.5",
    ]


def test_one_number_stands_for_a_list_of_one() -> None:
    assert to_dict(resolve({"data": {"mean": 0.25}}))["data"]["mean"] == [0.25]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"federation.round": 3}, "no key 'federation.round'; did you mean 'federation.rounds'?"),
    ({"rounds": 3}, "no key 'rounds'; did you mean 'federation.rounds'?"),
    ({"fed.rounds": 3}, "no key 'fed.rounds'"),
    ({"federation.rounds": "many"}, "federation.rounds is 'many'; it must be a whole number"),
    ({"federation.rounds": True}, "federation.rounds is True; it must be a whole number"),
    ({"federation.rounds": 2.5}, "federation.rounds is 2.5; it must be a whole number"),
    ({"federation.rounds": 0}, "federation.rounds is 0; it must be greater than or equal to 1"),
    ({"data.class_weights": [0, 1]}, "none, balanced or a list of numbers above 0, one for each"),
    ({"data.alpha": 0}, "data.alpha is 0; it must be greater than 0"),
    ({"data.alpha": -1.0}, "data.alpha is -1.0; it must be greater than 0"),
    ({"data.alpha": float("nan")}, "data.alpha is nan; it must be a finite number"),
    ({"data.alpha": float("inf")}, "data.alpha is inf; it must be a finite number"),
    ({"federation.fraction": 0}, "federation.fraction is 0; it must be greater than 0"),
    ({"federation.fraction": 1.1}, "it must be less than or equal to 1"),
    ({"federation.batch_size": 0}, "federation.batch_size is 0"),
    ({"federation.lr": 0}, "federation.lr is 0; it must be greater than 0"),
    ({"federation.steps": "some"}, "it must be own, equal or a whole number from 1"),
    ({"engine.workers": -1}, "engine.workers is -1; it must be greater than or equal to 0"),
    ({"engine.device": "tpu"}, "engine.device is 'tpu'; it must be cpu, cuda or cuda:N"),
    ({"data.partition": "iidd"}, "data.partition is 'iidd'; it must be 'iid', 'dirichlet'"),
    ({"fidelity": "exact"}, "fidelity is 'exact'; it must be 'text' or 'released'"),
    ({"algorithm.name": "fedkff"}, "no algorithm 'fedkff'; did you mean 'fedkf'?"),
    ({"algorithm.gamma": -1}, "algorithm.gamma is -1.0; it must be a number at least 0"),
    ({"algorithm.gamma": "x"}, "algorithm.gamma is 'x'; it must be a number at least 0"),
    ({"algorithm.gamma": float("nan")}, "algorithm.gamma is nan; it must be a number at least 0"),
    ({"algorithm.teacher": "me"}, "algorithm.teacher is 'me'; it must be one of oca, aca"),
    ({"algorithm.resample": 1}, "algorithm.resample is 1; it must be true or false"),
    ({"algorithm.mu": 1}, "fedkf has no such hyperparameter (it takes gamma, lambda1"),
    ({"algorithm.name": "fedavg", "algorithm.mu": 1}, "fedavg has no hyperparameters"),
    ({"model.name": "lenet"}, "model.name: no 'lenet'; did you mean 'lenet5'?"),
    ({"generator.name": "gan"}, "generator.name: no 'gan'; did you mean 'dcgan'?"),
    ({"federation": 3}, "federation is a section"),
]


@pytest.mark.parametrize(("overrides", "sentence"), MISTAKES)
def test_a_mistake_is_told_in_a_sentence(overrides: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(read("digits")[0], overrides)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("federation: [1", "is not valid YAML"),
        ("- a list", "must hold keys and values"),
        ("federation: 3", "federation must hold keys"),
        ("data: {alpha: 1, alpha: 2}", "'alpha' is given twice"),
    ],
)
def test_a_bad_file_is_explained(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        resolve(read(path)[0])
    assert sentence in str(caught.value)


def test_unknown_presets_and_files_are_told_apart() -> None:
    with pytest.raises(UserError, match="did you mean 'digits'"):
        read("digit")
    with pytest.raises(UserError, match=r"no configuration file missing/x\.yaml"):
        read("missing/x.yaml")


def test_objects_of_the_users_own_are_found_or_explained() -> None:
    config = resolve({}, {"algorithm.name": "fedkf.algorithms.fedavg:FedAvg"})
    assert config.algorithm.name == "fedkf.algorithms.fedavg:FedAvg"
    for name, sentence in [
        ("nowhere:X", "cannot be imported"),
        ("fedkf.metrics:X", "has no 'X'"),
        ("fedkf.metrics:amp", "is not a subclass of fedkf.Algorithm"),
    ]:
        with pytest.raises(UserError, match=sentence):
            resolve({}, {"algorithm.name": name})


def test_the_configuration_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().fidelity = "released"  # type: ignore[misc]


def test_a_normalisation_that_another_source_loses_is_told() -> None:
    content, _ = configuration.read("cifar10")
    other = {"data.source": "npz", "data.path": "x.npz"}
    said = configuration.dropped(content, other)
    assert "data.mean [0.4914, 0.4822, 0.4465] and data.std [0.2023, 0.1994, 0.201]" in said
    assert "are for cifar10 and do not apply to npz" in said
    assert configuration.dropped(content, {**other, "data.mean": 0.4, "data.std": 0.2}) == ""
    assert configuration.dropped(content, {"data.source": "cifar10"}) == ""
    assert configuration.dropped({"data": {"source": "digits"}}, other) == ""
    assert configuration.dropped({}, other) == ""


def test_tables_and_signals_have_models_of_their_own_unless_one_is_named() -> None:
    content, _ = configuration.read("digits")
    assert resolve(content, {"data.source": "table"}).model.name == "mlp"
    assert resolve({"data": {"source": "signals"}}).model.name == "cnn1d"
    assert resolve(content, {"data.source": "npz"}).model.name == "lenet5"
    named = {"data.source": "signals", "model.name": "mlp"}
    assert resolve(content, named).model.name == "mlp"
    own = {"data": {"source": "signals"}, "model": {"name": "mlp"}}
    assert resolve(own, {}).model.name == "mlp"


def test_own_data_begins_with_the_same_from_python_and_on_the_command_line(
    npz: Path, tmp_path: Path
) -> None:
    import fedkf
    from fedkf.cli.options import resolve as on_the_command_line
    from fedkf.cli.options import run_folder

    words = ["data.source=npz", f"data.path={npz}", "federation.rounds=1"]
    there, name = on_the_command_line(None, words)
    assert run_folder(there, name) == Path("runs/stripes-fedkf-0")
    assert (there.federation.fraction, there.overall.scope) == (1.0, "seen")
    data = {"source": "npz", "path": str(npz)}
    result = fedkf.run(data=data, rounds=1, workers=0, algorithm="fedavg", out=tmp_path / "run")
    here = yaml.safe_load((result.folder / "config.yaml").read_text())
    for section, keys in OWN.items():
        if isinstance(keys, dict):
            for key in keys.keys() - {"rounds"}:
                assert here[section][key] == getattr(getattr(there, section), key)
    assert on_the_command_line(None, [])[1] == "digits"
