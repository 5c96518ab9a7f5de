"""Metrics of each site in whole runs: what is asked for, what it is over, and what it discloses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings
from torch.utils.data import TensorDataset

import fedkf
from fedkf.core.errors import UserError
from fedkf.metrics import fm, wlp

CLINICAL = ["balanced_accuracy", "macro_f1", "sensitivity", "auroc", "average_precision", "ece"]


def sites_of(kind: str, one_class: bool = False) -> dict[str, TensorDataset]:
    """Three sites with 40 samples of four numbers, and targets of a kind."""
    random = np.random.default_rng(0)
    made = {}
    for k, name in enumerate(("north", "east", "south")):
        x = random.normal(size=(40, 4)).astype(np.float32)
        z = x @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.3 * random.normal(size=40)
        y: Any = {"binary": (z > 0.5).astype(np.int64), "regression": 3 * z + k}.get(kind)
        if kind == "survival":
            end = random.exponential(np.exp(-z))
            y = np.stack([np.minimum(end, 2), end < 2], 1)
        if one_class and name == "south":
            y = np.zeros_like(y)
        made[name] = TensorDataset(torch.from_numpy(x), torch.from_numpy(np.asarray(y)))
    return made


def trained(kind: str, **more: Any) -> fedkf.Result:
    one_class = more.pop("one_class", False)
    data = {"task": kind, **more.pop("data", {})}
    settings: dict[str, Any] = {"rounds": 2, "fraction": 1.0, "local_epochs": 2, "batch_size": 16}
    return fedkf.run(
        clients=sites_of(kind, one_class),
        algorithm="fedavg",
        model="mlp",
        data=data,
        federation=settings,
        **{"workers": 0, **more},
    )


def test_plain_classification_says_and_discloses_what_it_always_did(settings: Settings) -> None:
    result = fedkf.run(settings, algorithm="fedavg")
    for record in result.history:
        for score in record["readouts"].values():
            assert not {"sites", "metric"} & score.keys()
    assert not {"sites", "metric"} & result.summary.keys()
    assert "test_statistics" not in result.summary["disclosed"]


def test_any_number_of_workers_says_the_same_of_every_site(
    settings: Settings, tmp_path: Path
) -> None:
    settings["data"]["metrics"] = CLINICAL
    settings["algorithm"] = {"name": "fedavg"}
    results = [fedkf.run(settings, workers=n, out=tmp_path / str(n)) for n in (0, 2)]
    readouts = [[record["readouts"] for record in result.history] for result in results]
    assert json.dumps(readouts[0]) == json.dumps(readouts[1])
    assert results[0].summary["sites"] == results[1].summary["sites"]
    ledgers = [json.loads((tmp_path / str(n) / "ledger.json").read_bytes()) for n in (0, 2)]
    assert ledgers[0] == ledgers[1]
    assert ledgers[0]["leakage"] == ["test_statistics"]


def test_the_numbers_over_clients_are_over_the_metric_that_is_asked_for(
    settings: Settings,
) -> None:
    settings["data"]["metrics"] = ["sensitivity"]
    plain = fedkf.run(settings, algorithm="fedavg")
    other = fedkf.run(settings, algorithm="fedavg", evaluation={"metric": "balanced_accuracy"})
    for before, after in zip(plain.history, other.history, strict=True):
        for name, score in after["readouts"].items():
            values = score["sites"]["values"]["balanced_accuracy"]
            assert score["metric"] == "balanced_accuracy"
            assert score["wlp"] == wlp(values)
            assert score["fm"] == fm(values)
            assert score["accuracy"] == before["readouts"][name]["accuracy"]
    assert other.summary["metric"] == "balanced_accuracy"
    assert other.summary["readouts"] != plain.summary["readouts"]


def test_sensitivities_come_with_their_support_and_intervals_after_the_last_round(
    settings: Settings,
) -> None:
    settings["data"]["metrics"] = ["accuracy", "sensitivity"]
    result = fedkf.run(settings, algorithm="fedavg")
    sites = result.summary["sites"]["oca"]
    for k, support in enumerate(sites["support"]):
        right = sum(n * (s or 0) for n, s in zip(support, sites["sensitivity"][k], strict=True))
        tested = result.partition["clients"][sites["clients"][k]]["test"]
        assert sum(support) == tested
        if tested:
            assert right / tested == pytest.approx(sites["values"]["accuracy"][k])
            low, high = sites["intervals"]["accuracy"][k]
            assert low <= sites["values"]["accuracy"][k] <= high
        for n, ends in zip(support, sites["sensitivity_intervals"][k], strict=True):
            assert (ends is None) == (n == 0)
    assert "support" not in result.history[0]["readouts"]["oca"]["sites"]


def test_survival_is_refused_with_batches_of_one_which_compare_nobody() -> None:
    with pytest.raises(UserError, match=r"batch_size is 1, but data\.task survival compares"):
        trained("survival", batch_size=1)


def test_a_site_with_one_class_has_no_auroc_and_the_others_go_on() -> None:
    result = trained("binary", one_class=True)
    values = result.summary["sites"]["oca"]["values"]["auroc"]
    assert values[2] is None
    assert result.summary["metric"] == "auroc"
    assert result.summary["readouts"]["oca"]["wlp"] == min(values[:2])
    assert result.summary["sites"]["oca"]["intervals"]["auroc"][2] is None
    assert result.history[-1]["readouts"]["oca"]["accuracy"][2] > 0.5


@pytest.mark.parametrize(
    ("kind", "metric"), [("binary", "auroc"), ("regression", "r2"), ("survival", "concordance")]
)
def test_every_task_has_a_headline_of_its_own_which_training_lifts(kind: str, metric: str) -> None:
    result = trained(kind, lr=0.1, rounds=6)
    assert result.summary["metric"] == metric
    first, last = (result.history[k]["readouts"]["aca"]["amp"] for k in (0, -1))
    assert last > first
    assert last > 0.3


def test_where_less_is_better_the_worst_site_has_most() -> None:
    result = trained("regression", evaluation={"metric": "rmse"})
    score = result.history[-1]["readouts"]["aca"]
    values = score["sites"]["values"]["rmse"]
    assert score["wlp"] == max(values)
    assert min(values) < score["amp"] < max(values)
    assert score["accuracy"] == [None] * 3
    amps = [record["readouts"]["aca"]["amp"] for record in result.history]
    assert result.summary["best"]["aca"]["amp"] == min(amps)


@pytest.mark.parametrize(
    ("data", "evaluation", "sentence"),
    [
        ({"metrics": ["auc"]}, {}, r"data\.metrics is \['auc'\]; it must be a list of accuracy"),
        ({"metrics": []}, {}, r"data\.metrics is \[\]; it must be a list of"),
        ({"metrics": ["rmse"]}, {}, "data.task classification does not have; it has accuracy"),
        ({}, {"metric": "sensitivity"}, r"evaluation\.metric is 'sensitivity'; it must be"),
        ({}, {"metric": "r2"}, r"evaluation\.metric has r2, which data\.task classification"),
    ],
)
def test_what_a_task_does_not_have_is_refused_in_a_sentence(
    data: dict[str, Any], evaluation: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        fedkf.run("digits", data=data, evaluation=evaluation)


def test_the_command_names_the_headline_and_shows_every_site(
    cli: Callable[..., Outcome], npz: Path, tmp_path: Path
) -> None:
    settings = ["data.source=npz", f"data.path={npz}", "data.clients=3", "federation.rounds=1"]
    keys = [*settings, "data.metrics=[auroc,ece]", "evaluation.metric=balanced_accuracy"]
    options = [part for key in [*keys, "federation.local_epochs=1"] for part in ("--set", key)]
    outcome = cli("run", "--workers", 0, "--out", tmp_path / "run", "--quiet", *options)
    assert outcome.code == 0, outcome.err
    assert "over the clients' balanced accuracy" in outcome.out
    assert "client 2" in outcome.out
    assert "AUROC %" in outcome.out


def test_evaluate_finds_what_the_run_found_and_knows_all_metrics(tmp_path: Path) -> None:
    result = trained("binary", one_class=True)
    found = result.evaluate()
    values = result.summary["sites"]["oca"]["values"]
    assert found["metric"] == "auroc"
    assert found["wlp"] == result.summary["readouts"]["oca"]["wlp"]
    for k, client in enumerate(found["clients"]):
        assert {name: client["metrics"][name] for name in values} == {
            name: column[k] for name, column in values.items()
        }
        assert client["metrics"]["macro_f1"] is not None
    assert [c["tested"] for c in found["classes"]] == np.sum(
        result.summary["sites"]["oca"]["support"], axis=0
    ).tolist()


def test_evaluate_judges_tasks_without_classes() -> None:
    for kind, metric in (("regression", "r2"), ("survival", "concordance")):
        result = trained(kind)
        found = result.evaluate()
        assert found["metric"] == metric
        assert found["amp"] == pytest.approx(result.summary["readouts"]["oca"]["amp"])
        assert "classes" not in found
        assert metric in str(result) or "R²" in str(result)
        assert result._repr_html_()


def test_a_predicted_risk_says_what_it_is(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    trained("survival", out=tmp_path / "run")
    np.savez(tmp_path / "new.npz", images=np.zeros((2, 4), np.float32))
    told = cli("predict", tmp_path / "run", tmp_path / "new.npz")
    assert told.code == 0, told.err
    first, _ = told.out.splitlines()
    assert first.startswith("new.npz, sample 0: ")
    assert first.endswith(" (logarithm of a relative risk: higher means sooner)")
    as_json = json.loads(cli("predict", tmp_path / "run", tmp_path / "new.npz", "--json").out)
    assert isinstance(as_json[0]["value"], float)


def test_what_a_site_cannot_tell_is_said(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    random, lines = np.random.default_rng(0), ["age,dose,hospital,ill"]
    for k in range(60):
        hospital, ill = ("north", k % 2) if k < 40 else ("south", 0)
        age, dose = random.normal(size=2) + ill
        lines.append(f"{age:.3f},{dose:.3f},{hospital},{ill}")
    (tmp_path / "two.csv").write_text("\n".join(lines) + "\n")
    keys = ["data.source=table", f"data.path={tmp_path / 'two.csv'}", "data.task=binary"]
    keys += ["data.target=ill", "data.site=hospital", "model.name=mlp"]
    keys += ["federation.rounds=1", "federation.local_epochs=1", "algorithm.name=fedavg"]
    options = [part for key in keys for part in ("--set", key)]
    outcome = cli("run", "--workers", 0, "--out", tmp_path / "run", "--quiet", *options)
    assert outcome.code == 0, outcome.err
    assert "AUROC cannot be said of south: too few kinds of test samples" in outcome.out
    assert "over the clients' AUROC" in outcome.out
