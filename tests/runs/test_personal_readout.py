"""The readout `personal`: in the records, in tables, and taken home."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings, model_bytes
from rich.console import Console
from safetensors.torch import load_file

import fedkf
from fedkf.cli.progress import Lines
from fedkf.core.client import Client
from fedkf.core.evaluation import correct
from fedkf.core.payload import Payload
from fedkf.core.records import Round
from fedkf.runs.personal import client_models, file_name
from fedkf.runs.store import RunFolder

CLI = Callable[..., Outcome]


@pytest.fixture
def differing(settings: Settings) -> Settings:
    settings["data"] |= {"alpha": 0.1, "train_fraction": 0.6, "min_samples": 6, "clients": 4}
    settings["model"] = {"name": "mlp"}
    return settings


def personal(settings: Settings, method: str, epochs: int = 10) -> Settings:
    return {**settings, "evaluation": {"personal": method, "personal_epochs": epochs}}


@pytest.mark.parametrize("method", ["finetune", "head", "interpolate"])
def test_the_last_round_also_judges_each_clients_own_model(
    differing: Settings, tmp_path: Path, method: str
) -> None:
    out = tmp_path / "run"
    result = fedkf.run(personal(differing, method), algorithm="fedavg", rounds=2, out=out)
    first, last = result.history
    assert list(first["readouts"]) == ["aca", "oca"]
    assert list(last["readouts"]) == ["aca", "oca", "personal"]
    assert result.summary["readouts"]["personal"]["amp"] > 0
    assert "weights" not in json.loads((out / "ledger.json").read_text())["evaluation"]["up"]
    # What is taken home is what was judged.
    found, score = client_models(out), last["readouts"]["personal"]
    for id, accuracy in zip(score["clients"], score["accuracy"], strict=True):
        model = found.assembly.task.load("student", found.weights("personal", id)).eval()
        held = found.data.client(id)
        hits = correct(model, held.test_images, held.test_labels)
        assert accuracy == int(hits.sum()) / len(hits)


def test_shared_models_are_as_without_personal_ones_and_workers_do_not_matter(
    differing: Settings, tmp_path: Path
) -> None:
    content = personal(differing, "interpolate")
    fedkf.run(differing, algorithm="fedkf", rounds=2, out=tmp_path / "plain")
    here = fedkf.run(content, rounds=2, out=tmp_path / "0", workers=0)
    there = fedkf.run(content, rounds=2, out=tmp_path / "2", workers=2)
    assert model_bytes(tmp_path / "plain") == model_bytes(tmp_path / "0")
    assert here.history[-1]["readouts"] == there.history[-1]["readouts"]


def test_a_longer_run_goes_on_as_if_there_had_been_no_personal_models(
    differing: Settings, tmp_path: Path
) -> None:
    content = personal(differing, "finetune", 2)
    fedkf.run(content, rounds=1, out=tmp_path / "a")
    fedkf.run(content, rounds=2, out=tmp_path / "a", resume=True)
    fedkf.run(content, rounds=2, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    last = [RunFolder(tmp_path / name).rounds()[-1]["readouts"] for name in "ab"]
    assert last[0] == last[1]


@pytest.mark.parametrize("algorithm", ["ditto", "pfedme", "perfedavg", "local"])
def test_algorithms_whose_clients_have_models_keep_to_those(
    differing: Settings, tmp_path: Path, algorithm: str
) -> None:
    with pytest.raises(fedkf.UserError, match="a model of its own already; it must be none"):
        fedkf.run(personal(differing, "head"), algorithm=algorithm)
    result = fedkf.run(differing, algorithm=algorithm, rounds=1, fraction=1.0, out=tmp_path)
    found, last = client_models(tmp_path), result.history[-1]["readouts"]
    score = last["personal"] if "personal" in last else last["aca"]
    for id, accuracy in zip(score["clients"], score["accuracy"], strict=True):
        model = found.assembly.task.load("student", found.weights("personal", id)).eval()
        held = found.data.client(id)
        hits = correct(model, held.test_images, held.test_labels)
        assert accuracy == int(hits.sum()) / len(hits)


class Starting(fedkf.FedAvg):
    """Its clients also judge what they begin a round with."""

    name = "starting"

    def evaluate(self, client: Client, down: Payload) -> Payload:
        return super().evaluate(client, down.replace(first=client.task.initial_weights))


def test_an_algorithm_that_judges_more_has_personal_models_beside_it(differing: Settings) -> None:
    last = fedkf.run(personal(differing, "head"), algorithm=Starting(), rounds=1).history[-1]
    assert set(last["readouts"]) == {"aca", "oca", "first", "personal"}
    assert all(score["clients"] == [0, 1, 2, 3] for score in last["readouts"].values())


class Fragile(fedkf.FedAvg):
    """One of its clients counts what cannot be."""

    name = "fragile"

    def evaluate(self, client: Client, down: Payload) -> Payload:
        report = super().evaluate(client, down)
        if client.id != 1:
            return report
        return report.replace(monitoring={**report.numbers["monitoring"], "aca": 10**6})


def test_who_is_missing_from_the_metrics_is_named_with_the_reason(
    differing: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = fedkf.run(
        differing, algorithm=Fragile(), rounds=3, evaluate_every=2, out=tmp_path / "run"
    )
    last = result.history[-1]
    assert last["readouts"]["aca"]["clients"] == [0, 2, 3]
    assert [silent["client"] for silent in last["unjudged"]] == [1]
    assert "'aca' is 1000000" in last["unjudged"][0]["reason"]
    assert "unjudged" not in result.history[0]  # nobody was asked
    assert Round.read(last).unjudged[0].client == 1
    with Lines(3, "run", Console(file=sys.stderr, width=200)) as lines:
        for record in result.history:
            lines.round_finished(Round.read(record))
    told = capsys.readouterr().err
    assert told.count("client 1 is missing from the metrics") == 1


def test_report_and_sweeps_have_a_row_for_personal_models(
    differing: Settings, tmp_path: Path, cli: CLI
) -> None:
    from fedkf.paper.grid import grid_table
    from fedkf.runs.collect import Group
    from fedkf.runs.suite import records

    run = tmp_path / "run"
    fedkf.run(personal(differing, "head"), algorithm="fedavg", rounds=1, out=run)
    assert cli("report", run, "--out", tmp_path / "report.html").code == 0
    page = (tmp_path / "report.html").read_text()
    assert 'data-folder="run" data-readout="personal"' in page
    assert "each site under a model of its own" in page
    group = Group({"algorithm.name": "fedavg"}, records([run]))
    rows = grid_table("", [group], ["amp"]).rows
    assert list(rows) == ["FedAvg (ACA)", "FedAvg (OCA)", "FedAvg (PERSONAL)"]


def test_a_clients_model_is_exported_by_its_name(
    differing: Settings, tmp_path: Path, cli: CLI
) -> None:
    run = tmp_path / "run"
    fedkf.run(personal(differing, "finetune"), algorithm="fedavg", rounds=1, out=run)
    options = ["--readout", "personal", "--format", "safetensors"]
    shown = cli("export", run, *options, "--client", "client 2")
    assert shown.code == 0
    home = run / "export"
    assert shown.out.split()[0].endswith("personal-client_2.safetensors")
    model = fedkf.personal_model(run, "client 2")
    exported = load_file(home / "personal-client_2.safetensors")
    assert all(torch.equal(exported[k], w) for k, w in model.model.state_dict().items())
    again = fedkf.load(home, "personal-client_2")
    assert torch.equal(again(torch.ones(1, 1, 16, 16)), model(torch.ones(1, 1, 16, 16)))


def test_clients_whose_names_are_alike_have_files_of_their_own(
    differing: Settings, tmp_path: Path
) -> None:
    fedkf.run(differing, algorithm="fedavg", rounds=1, out=tmp_path)
    about = json.loads((tmp_path / "partition.json").read_text())
    names = ["ward 1", "ward_1", "Ward/1", "ward 2"]
    for client, name in zip(about["clients"], names, strict=False):
        client["name"] = name
    (tmp_path / "partition.json").write_text(json.dumps(about))
    files = [file_name(tmp_path, name) for name in names]
    assert len({file.casefold() for file in files}) == len(names)
    assert files[0].startswith("personal-ward_1-")
    assert files[-1] == "personal-ward_2"


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_a_clients_model_is_made_again_whatever_the_task(task: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    clients = {}
    for name in ("north", "south"):
        x = random.normal(size=(30, 3)).astype(np.float32)
        end = random.exponential(np.exp(-x[:, 0]))
        y = np.stack([np.minimum(end, 2), end < 2], 1) if task == "survival" else 5 * x[:, 0]
        clients[name] = (x, y)
    fedkf.run(
        clients=clients,
        algorithm="ditto",
        model="mlp",
        task=task,
        rounds=1,
        workers=0,
        out=tmp_path / "run",
    )
    found = fedkf.personal_model(tmp_path / "run", "south", clients=clients)
    assert found(torch.from_numpy(clients["south"][0])).shape == (30, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--readout", "personal"],
            "a personal model is one client's: name it (--client), such as 'client 0'",
        ),
        (["--readout", "personal", "--client", "client 9"], "has no client 'client 9'"),
        (["--client", "client 0"], "--client goes with --readout personal"),
    ],
)
def test_what_cannot_be_exported_is_told_in_a_sentence(
    differing: Settings, tmp_path: Path, cli: CLI, arguments: list[str], words: str
) -> None:
    run = tmp_path / "run"
    fedkf.run(personal(differing, "head", 1), algorithm="fedavg", rounds=1, out=run)
    code, out, err = cli("export", run, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_run_without_personal_models_says_so(three_runs: Path, cli: CLI) -> None:
    told = cli("export", three_runs / "fedavg", "--readout", "personal", "--client", "client 0")
    assert told.code == 2
    assert "evaluation.personal was none" in told.err
