"""Clients that are almost not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Settings, Unsteady, model_bytes
from rich.console import Console
from torch import nn

import fedkf
from fedkf.cli.tables import results_table
from fedkf.core.errors import UserError
from fedkf.metrics import METRICS
from fedkf.report.runs import read_run
from fedkf.report.sentences import samples_of_sites


@pytest.mark.parametrize("fidelity", ["text", "released"])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedkf", "fedgkd", "moon", "ccvr", "fedgen"])
def test_clients_with_one_sample_and_without_test_samples_take_part(
    settings: Settings, tmp_path: Path, fidelity: str, algorithm: str
) -> None:
    random = np.random.default_rng(0)
    path = tmp_path / "few.npz"
    np.savez(path, images=random.random((9, 16, 16)), labels=np.arange(9) % 3)
    settings["data"] = {"source": "npz", "path": str(path), "clients": 8, "partition": "iid"}
    settings["federation"]["fraction"] = 1.0
    result = fedkf.run(settings, fidelity=fidelity, algorithm=algorithm, data={"partition": "iid"})
    for record in result.history:
        assert record["refused"] == []
        for score in record["readouts"].values():
            assert score["accuracy"].count(None) == 7
            assert 0 <= score["wlp"] == score["amp"] <= 1


def test_batches_of_one_are_refused_where_nothing_would_learn_from_them(
    settings: Settings,
) -> None:
    told = r"federation\.batch_size is 1, but Unsteady has batch normalisation, .* 2 or more"
    with pytest.raises(UserError, match=told):
        fedkf.run(settings, model=Unsteady, algorithm="fedavg", batch_size=1)
    plain = fedkf.run(settings, algorithm="fedavg", batch_size=1, rounds=1, steps=1)
    assert plain.history[0]["losses"]["drift"] > 0


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"generator": {"batch_size": 1}}, "generator"),
        ({"generator": {"batch_size": None}, "batch_size": 1}, "federation"),
    ],
)
def test_one_generated_sample_at_a_time_is_refused_where_it_cannot_be_made(
    settings: Settings, given: dict[str, Any], key: str
) -> None:
    settings["generator"] = {"name": "mlp", "width": 4, "noise": 8}
    told = rf"{key}\.batch_size is 1, but VectorGenerator cannot take a single sample .* 2 or more"
    with pytest.raises(UserError, match=told):
        fedkf.run(settings, **given)
    for works in ({"samples": "noise"}, {"name": "dcgan"}):
        settings["generator"] |= works
        fedkf.run(settings, rounds=1, first_round="distil", **given)
    with pytest.raises(UserError, match=rf"{key}\.batch_size is 1, but Sequential "):
        fedkf.run(settings, model=normed, **given)


def normed() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def test_no_test_data_at_all_trains_and_says_so(settings: Settings) -> None:
    result = fedkf.run(settings, train_fraction=1.0)
    assert result.summary["readouts"]["aca"] == dict.fromkeys(METRICS)
    assert result.summary["best"] == {}


def test_rounds_that_are_not_evaluated_are_null_and_the_last_always_is(settings: Settings) -> None:
    history = fedkf.run(settings, rounds=5, evaluate_every=2).history
    assert [r["readouts"] is not None for r in history] == [False, True, False, True, True]


def test_evaluation_on_a_sample_names_its_clients_and_changes_no_model(
    settings: Settings, tmp_path: Path
) -> None:
    some = fedkf.run(settings, algorithm="fedavg", evaluate_clients=2, out=tmp_path / "some")
    full = fedkf.run(settings, algorithm="fedavg", out=tmp_path / "full")
    assert model_bytes(tmp_path / "some") == model_bytes(tmp_path / "full")
    everyone = full.history[-1]["readouts"]["oca"]
    for record in some.history:
        assert record["readouts"]["oca"]["clients"] == some.history[0]["readouts"]["oca"]["clients"]
    sample = some.history[-1]["readouts"]["oca"]
    assert len(sample["clients"]) == 2
    assert sample["accuracy"] == [everyone["accuracy"][k] for k in sample["clients"]]
    assert "of" not in everyone | full.summary["readouts"]["oca"]
    told = some.summary["readouts"]["oca"]
    assert (sample["of"], told["judged"], told["of"]) == (6, 2, 6)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(results_table({"fedavg": some.summary}))
    assert "OCA (2 of 6 clients)" in shown.get()
    [caution] = samples_of_sites([read_run(tmp_path / "some")])
    assert "tested at 2 of 6 sites" in caution
    assert samples_of_sites([read_run(tmp_path / "full")]) == []


def test_m_is_at_least_one_and_rounded(settings: Settings) -> None:
    for fraction, active in ((0.01, 1), (0.24, 1), (0.25, 2), (0.5, 3), (1.0, 6)):
        history = fedkf.run(settings, algorithm="fedavg", rounds=1, fraction=fraction).history
        assert len(history[0]["active"]) == active


def test_both_readouts_agree_when_everybody_is_active(settings: Settings) -> None:
    import torch

    result = fedkf.run(settings, algorithm="fedavg", rounds=2, fraction=1.0)
    for name, tensor in result.weights["aca"].items():
        assert torch.allclose(tensor, result.weights["oca"][name], atol=1e-7)


def test_the_frame_is_tidy(settings: Settings) -> None:
    frame = fedkf.run(settings, algorithm="fedavg").frame()
    assert list(frame.columns) == ["round", "readout", *METRICS]
    assert len(frame) == 6


def test_training_learns(settings: Settings) -> None:
    """The classes can be told apart, so whatever is not learned is a mistake of ours."""
    result = fedkf.run(settings, rounds=30, lr=0.1, fidelity="released", alpha=5.0)
    assert result.summary["readouts"]["oca"]["amp"] > 0.9
