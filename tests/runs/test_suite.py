"""Suites: what a grid expands to, and which records answer it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedkf.core.errors import UserError
from fedkf.runs import suite
from fedkf.runs.config import read, resolve, to_yaml


def write(folder: Path, text: str) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text)
    return path


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
base:
  config: digits
  federation: {rounds: 7}
  generator.width: 4
grid:
  algorithm.name: [fedavg, fedkf-]
  data.alpha: [1, 0.1]
  federation.seed: [0, 1, 2]
""",
    )
    plans = suite.read(path).plans
    assert len(plans) == 12
    assert plans[0].name == "fedavg,alpha=1,seed=0"
    assert plans[-1].name == "fedkf-,alpha=0.1,seed=2"
    config = plans[-1].config
    assert (config.algorithm.name, config.data.alpha, config.federation.seed) == ("fedkf-", 0.1, 2)
    assert (config.federation.rounds, config.generator.width, config.engine.workers) == (7, 4, 0)


def test_configurations_may_be_in_the_grid(tmp_path: Path) -> None:
    path = write(tmp_path, "grid: {config: [digits, letters], federation.seed: [3]}")
    plans = suite.read(path).plans
    assert [plan.name for plan in plans] == ["digits,seed=3", "letters,seed=3"]
    assert [plan.config.data.source for plan in plans] == ["digits", "letters"]


def test_variants_are_named_settings_beside_a_grid(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
base: digits
variants:
  FedAvg: {algorithm.name: fedavg}
  mild: {algorithm: {name: fedprox, mu: 0.01}}
grid: {federation.seed: [0, 1]}
""",
    )
    read_suite = suite.read(path)
    assert read_suite.keys == ["variant", "federation.seed"]
    assert [p.name for p in read_suite.plans][:3] == [
        "FedAvg,seed=0",
        "FedAvg,seed=1",
        "mild,seed=0",
    ]
    last = read_suite.plans[-1].config
    assert (last.algorithm.name, last.federation.seed) == ("fedprox", 1)
    assert last.algorithm.model_dump()["mu"] == 0.01


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("variants: []", "variants must map names to settings"),
        ("variants: {a: 3}", "variants must map names to settings"),
        (
            "variants: {a: {data.alpha: 1}}\ngrid: {data.alpha: [1]}",
            "in the grid and in the variant a",
        ),
        ("variants: {a: {}}\nsearch: {}", "nothing to search"),
        ("[1, 2]", "must hold `base:`"),
        ("base: digits\nrounds: 3", "must hold `base:`"),
        ("base: digits\ngrid: {data.alpha: 0.1}", "grid must map keys to lists"),
        ("base: digits\ngrid: {data.alpha: []}", "grid must map keys to lists"),
        ("base: digitz", "did you mean 'digits'"),
        ("base: digits\ngrid: {data.alfa: [1]}", "did you mean 'data.alpha'"),
        ("base: digits\ngrid: {data.alpha: [-1]}", "data.alpha is -1"),
        ("base: digits\ngrid: {data.alpha: [1, 1]}", "is there twice"),
        ("base: digits\nvariants: {..: }", "no run's folder can be called ..; give it another"),
        ("base: digits\nvariants: {.: }", "no run's folder can be called .; give it another"),
        ("base: digits\nvariants: {/: }", "no run's folder can be called .; give it another"),
        ("base: digits\nvariants: {a b: , a.b: }", "a.b is there twice"),
        (
            f"base: digits\nvariants: {{{'é' * 101}: }}",
            "would have a name of 202 bytes; at most 200 are taken",
        ),
        (
            "base: digits\nvariants: {Mild: , mild: {federation.lr: 1}}",
            "Mild and mild differ in capital letters alone, which some disks take for one folder",
        ),
        ("base: [digits]", "it must name a preset"),
        ("base: {", "not valid YAML"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        suite.read(write(tmp_path, text))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def record(folder: Path, overrides: dict[str, object], rounds: int | None = None) -> None:
    """What a finished run leaves in a repository: its configuration and its numbers."""
    config = resolve(read("digits")[0], overrides)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(to_yaml(config))
    done = config.federation.rounds if rounds is None else rounds
    summary = {"algorithm": config.algorithm.name, "rounds": done}
    (folder / "summary.json").write_text(json.dumps(summary))


def answered(folder: Path, **overrides: object) -> bool:
    plan = suite.make_plan("digits", {k.replace("__", "."): v for k, v in overrides.items()}, {})
    return suite.answers(plan, suite.records([folder])) is not None


def test_a_record_answers_its_own_experiment_only(tmp_path: Path) -> None:
    record(tmp_path / "deep" / "any name", {"algorithm.name": "fedavg", "engine.workers": 3})
    assert answered(tmp_path, algorithm__name="fedavg")
    assert answered(tmp_path, algorithm__name="fedavg", generator__width=99)  # it has none
    assert not answered(tmp_path, algorithm__name="fedkf")
    assert not answered(tmp_path, algorithm__name="fedavg", federation__seed=1)
    assert not answered(tmp_path, algorithm__name="fedavg", federation__rounds=5)
    assert not answered(tmp_path, algorithm__name="fedavg", data__clients=11)


def test_a_record_answers_what_it_settled_for_itself(tmp_path: Path) -> None:
    record(tmp_path / "run", {"algorithm.name": "fedavg", "data.decimal": "comma"})
    assert answered(tmp_path, algorithm__name="fedavg")
    assert answered(tmp_path, algorithm__name="fedavg", data__decimal="comma")
    assert not answered(tmp_path, algorithm__name="fedavg", data__decimal="point")


def test_a_run_that_was_not_finished_is_no_record(tmp_path: Path) -> None:
    record(tmp_path / "short", {"algorithm.name": "fedavg"}, rounds=3)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "summary.json").write_text("{")
    assert not answered(tmp_path, algorithm__name="fedavg")


def test_letters_as_a_file_and_as_a_data_set_are_the_same_samples() -> None:
    named = resolve(read("letters")[0])
    file = named.data.model_copy(update={"source": "npz", "path": "letters.npz"})
    other = named.data.model_copy(update={"source": "npz", "path": "other.npz"})
    assert suite.difference(named, named.model_copy(update={"data": file})) is None
    assert suite.difference(named, named.model_copy(update={"data": other})) == "data.source"
