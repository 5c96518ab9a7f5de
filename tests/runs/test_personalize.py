"""A trained model that goes on training at each client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import Outcome, Settings, make_client
from torch import nn
from torch.utils.data import TensorDataset

import fedkf
from fedkf.metrics import METRICS
from fedkf.runs.store import RunFolder

CLI = Callable[..., Outcome]


@pytest.fixture
def run(settings: Settings, tmp_path: Path) -> Path:
    settings["data"] |= {"alpha": 0.1, "train_fraction": 0.6, "min_samples": 6}
    fedkf.run(settings, algorithm="fedavg", rounds=4, lr=0.1, out=tmp_path / "run")
    return tmp_path / "run"


def test_what_was_before_is_what_the_run_reported_and_the_result_is_kept(run: Path) -> None:
    result = fedkf.personalize(run, readout="aca", workers=0)
    last = RunFolder(run).rounds()[-1]["readouts"]["aca"]
    assert [c["before"] for c in result["clients"]] == last["accuracy"]
    assert {k: last[k] for k in METRICS} == result["before"]
    for c in result["clients"]:
        if c["tested"]:
            assert c["gain"] == pytest.approx(c["after"] - c["before"])
    assert json.loads((run / "personalize-finetune.json").read_text()) == result


def test_training_on_its_own_data_helps_clients_that_differ(run: Path) -> None:
    result = fedkf.personalize(run, epochs=20, lr=0.1)
    assert result["after"]["amp"] > result["before"]["amp"] + 0.1


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_schedule_of_the_run_does_not_lower_the_rate(
    settings: Settings, tmp_path: Path, schedule: str
) -> None:
    found = []
    for how in ("constant", schedule):  # of one round, so that the shared models are the same
        fedkf.run(settings, algorithm="fedavg", rounds=1, schedule=how, out=tmp_path / how)
        found.append(fedkf.personalize(tmp_path / how, epochs=5, lr=0.1, workers=0))
    assert found[0]["clients"] == found[1]["clients"]
    assert found[0]["before"] != found[0]["after"]


def test_workers_do_not_matter_and_the_proximal_term_does(run: Path) -> None:
    options: Settings = {"epochs": 10, "lr": 0.1}
    here = fedkf.personalize(run, workers=0, **options)
    assert fedkf.personalize(run, workers=2, **options) == here
    free = fedkf.personalize(run, "proximal", mu=0.0, workers=0, **options)
    assert free["clients"] == here["clients"]  # without its term it is finetuning
    # Held this firmly at the shared model, nothing changes.
    held = fedkf.personalize(run, "proximal", mu=1.0, epochs=1, lr=1e-9, workers=0)
    assert held["before"] == held["after"]
    assert held["mu"] == 1.0


def test_proximal_models_stay_nearer(settings: Settings) -> None:
    from fedkf.core.payload import Payload
    from fedkf.runs.personalize import Personal

    def moved(mu: float) -> float:
        client = make_client(settings, 0)
        start = client.task.initial_weights
        Personal(mu=mu).personalize(client, Payload(weights=start))
        after = client.model.state_dict()
        return float(sum((after[k] - w).square().sum() for k, w in start.items()))

    assert moved(5.0) < 0.8 * moved(0.0)


def test_a_run_made_in_python_is_given_its_model_and_data_again(tmp_path: Path) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

    random = torch.Generator().manual_seed(0)
    sites = {}
    for k, name in enumerate(("a", "b")):
        x = torch.rand(20, 1, 4, 4, generator=random)
        sites[name] = TensorDataset(x, (x.mean((1, 2, 3)) > 0.5).long() ^ k)
    fedkf.run(model=make, clients=sites, algorithm="fedavg", rounds=1, out=tmp_path, workers=0)
    with pytest.raises(fedkf.UserError, match=r"given to fedkf\.run"):
        fedkf.personalize(tmp_path)
    result = fedkf.personalize(tmp_path, model=make, clients=sites, workers=0)
    assert [c["name"] for c in result["clients"]] == ["a", "b"]
    other = {name: TensorDataset(*(t[:10] for t in site.tensors)) for name, site in sites.items()}
    with pytest.raises(fedkf.UserError, match="not the one"):
        fedkf.personalize(tmp_path, model=make, clients=other)


def test_the_command_prints_a_table_or_one_object(run: Path, cli: CLI) -> None:
    shown = cli("personalize", run, "--epochs", 2, "--workers", 0)
    assert shown.code == 0
    assert "client 5" in shown.out
    assert "after: AMP" in shown.out
    told = cli("personalize", run, "--method", "proximal", "--mu", 0.5, "--json", "--workers", 0)
    assert json.loads(told.out)["mu"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "fintune"], "did you mean 'finetune'?"),
        (["--epochs", "0"], "epochs is 0; it must be at least 1"),
        (["--lr", "-1"], "lr is -1; it must be a number above 0"),
        (["--mu", "1"], "mu goes with the method proximal"),
        (["--method", "proximal", "--mu", "-1"], "mu is -1"),
        (["--readout", "oka"], "did you mean 'oca'?"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    run: Path, cli: CLI, arguments: list[str], words: str
) -> None:
    code, out, err = cli("personalize", run, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_folders_without_a_shared_model_are_refused(
    settings: Settings, tmp_path: Path, cli: CLI
) -> None:
    assert cli("personalize", tmp_path / "none").code == 2
    fedkf.run(settings, algorithm="local", rounds=1, out=tmp_path / "local")
    alone = cli("personalize", tmp_path / "local")
    assert alone.code == 2
    assert "no shared model" in alone.err
