"""What fedkf.run returns: models as they are used, a table to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny
from torch import nn

import fedkf
from fedkf.core.errors import UserError


def make_model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 3))


@pytest.fixture(scope="module")
def result(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> fedkf.Result:
    """A run whose normalisation moves inputs far away: a model without it would be lost."""
    settings = {**tiny(npz), "algorithm": "fedavg"}
    settings["data"] |= {"mean": 3.0, "std": 0.2}
    folder = tmp_path_factory.mktemp("run") / "mine"
    return fedkf.run(settings, model=make_model, rounds=6, lr=0.01, out=folder)


@pytest.fixture(scope="module")
def samples(npz: Path) -> tuple[Any, Any]:
    found = np.load(npz)
    return found["images"][:, None], found["labels"]


def test_models_of_a_result_are_those_of_a_loaded_run(
    result: fedkf.Result, samples: tuple[Any, Any]
) -> None:
    x = torch.from_numpy(samples[0])
    loaded = fedkf.load(result.folder, model=make_model)
    for readout, model in result.models.items():
        again = fedkf.load(result.folder, readout, make_model)
        assert torch.equal(model(x), again(x))
    assert result.predict(x) == loaded.predict(x)
    assert result.predict(samples[0]) == loaded.predict(x)
    normalised = (x - 3.0) / 0.2
    assert torch.allclose(result.raw_models["oca"](normalised), result.models["oca"](x), atol=1e-4)


def test_a_result_is_evaluated_on_its_clients_and_on_new_data(
    result: fedkf.Result, samples: tuple[Any, Any], npz: Path
) -> None:
    x, y = samples
    own = result.evaluate()
    assert own["amp"] == pytest.approx(result.summary["readouts"]["oca"]["amp"])
    assert len(own["clients"]) == 6
    right = [int(name) == label for (name, _), label in zip(result.predict(x), y, strict=True)]
    assert result.evaluate((x, y))["amp"] == pytest.approx(np.mean(right))
    for new in (npz, {"all": (x, y)}):
        found = fedkf.evaluate(result.folder, new, model=make_model)
        assert found["amp"] == pytest.approx(np.mean(right))
    assert fedkf.evaluate(result.folder, model=make_model)["amp"] == pytest.approx(own["amp"])
    with pytest.raises(fedkf.UserError, match=r"the model takes images, not more\.csv"):
        result.evaluate("more.csv")


def test_a_model_given_as_a_function_is_exported(result: fedkf.Result, tmp_path: Path) -> None:
    files = fedkf.export(result, tmp_path / "a", ["safetensors", "onnx"])
    assert [f.name for f in files] == ["oca.safetensors", "model.json", "oca.onnx"]
    again = fedkf.export(result.folder, tmp_path / "b", ["safetensors"], model=make_model)
    assert again[0].read_bytes() == files[0].read_bytes()
    onnx = pytest.importorskip("onnx")
    about = {p.key: p.value for p in onnx.load(files[-1]).metadata_props}
    assert json.loads(about["class_names"]) == result.about["class_names"]
    with pytest.raises(UserError, match="format 'onx': did you mean 'onnx'"):
        fedkf.export(result, tmp_path, ["onx"])


def test_a_result_is_shown_as_a_table(result: fedkf.Result) -> None:
    text = str(result)
    assert text.splitlines()[0] == "fedavg: 6 rounds, seed 0, 6 clients"
    assert "tensor" not in text
    assert max(len(line) for line in text.splitlines()) < 80
    shown = f"{100 * result.summary['readouts']['oca']['amp']:.1f}"
    assert text.splitlines()[-1].split()[:2] == ["OCA", shown]
    html = result._repr_html_()
    assert html.count("<polyline") == 4  # average and worst, for two readouts
    assert html.count("<rect") == sum(c["test"] > 0 for c in result.partition["clients"])


def test_names_in_a_notebook_are_no_markup(result: fedkf.Result) -> None:
    from fedkf.runs.display import as_html

    clients = [{"name": "<b>north</b>"}] * 6
    assert "<b>north" not in as_html(result.summary, result.rounds, {"clients": clients})


def test_what_a_result_cannot_do_is_told(npz: Path, result: fedkf.Result) -> None:
    alone = fedkf.run({**tiny(npz), "algorithm": "local"}, rounds=1)
    with pytest.raises(UserError, match="every client trained alone"):
        alone.predict(torch.zeros(1, 1, 16, 16))
    with pytest.raises(UserError, match="no readout 'oac'; did you mean 'oca'"):
        result.predict(torch.zeros(1, 1, 16, 16), "oac")


def test_the_public_names_are_listed() -> None:
    assert set(fedkf.__all__) <= set(dir(fedkf))
    assert "_HOMES" not in dir(fedkf)
    for name in fedkf.__all__:
        assert getattr(fedkf, name) is not None


def test_which_samples_train_and_test_is_saved(result: fedkf.Result, samples: Any) -> None:
    x, y = samples
    saved = np.load(result.folder / "split.npz")
    assert sorted([*saved["train"], *saved["test"]]) == list(range(len(y)))
    data = result.data()
    assert np.array_equal(data.test_labels.numpy(), y[saved["test"]])
    first = slice(*saved["train_offsets"][:2])
    mine = torch.from_numpy(x[saved["train"][first]])
    assert torch.allclose(data.client(0).images, (mine - 3.0) / 0.2, atol=1e-5)


def test_each_client_has_its_own_confusion(result: fedkf.Result) -> None:
    found = result.evaluate()
    each = [np.array(c["confusion"]) for c in found["clients"] if c["tested"]]
    assert np.array_equal(sum(each), np.array(found["confusion"]))
    for client in found["clients"]:
        if client["tested"]:
            rows = np.array(client["confusion"])
            assert rows.trace() / rows.sum() == pytest.approx(client["accuracy"])


def test_a_split_by_something_that_is_not_there_is_refused(npz: Path, samples: Any) -> None:
    with pytest.raises(UserError, match="a split of your own"):
        fedkf.run(clients={"a": samples, "b": samples}, split_by="patient", workers=0)


def test_settings_by_other_names_are_answered_with_ours() -> None:
    with pytest.raises(UserError, match="no setting 'scheduler'; it is called schedule"):
        fedkf.run("digits", scheduler="cosine")
    with pytest.raises(UserError, match="a loss of your own is a task"):
        fedkf.run("digits", **{"federation.loss": "focal"})  # type: ignore[arg-type]
