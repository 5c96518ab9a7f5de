"""Scaling: what sites agree on without pooling, and what each does for itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import fedkf
from fedkf.core.random import Streams
from fedkf.data.federated import Preparation, federate
from fedkf.data.scaling import merged, moments, scale
from fedkf.data.source import Source
from fedkf.runs.config import resolve
from fedkf.runs.setup import load_source, make_data, settle


def test_merged_sums_are_those_of_the_pooled_samples() -> None:
    random = np.random.default_rng(0)
    x = random.normal(1e6, 3, size=(60, 2)).astype(np.float32)  # squares would lose all digits
    x[::7, 1] = np.nan
    parts = [moments(x[a:b]) for a, b in ((0, 8), (8, 40), (40, 60))]
    mean, std = scale(merged(parts))
    np.testing.assert_allclose(mean, np.nanmean(x.astype(float), axis=0), rtol=1e-8)
    np.testing.assert_allclose(std, np.nanstd(x.astype(float), axis=0), rtol=1e-6)


def test_a_channel_of_signals_is_scaled_as_one() -> None:
    x = np.random.default_rng(0).normal(5, 2, size=(20, 3, 11))
    mean, std = scale(moments(x))
    np.testing.assert_allclose(mean, x.mean((0, 2)))
    np.testing.assert_allclose(std, x.std((0, 2)))


def test_a_site_with_few_samples_sends_nothing_of_them() -> None:
    x = np.arange(8.0).reshape(4, 2)
    assert not any(values.any() for values in vars(moments(x)).values())
    many = np.concatenate([x, x, x])
    many[4:, 1] = np.nan
    assert moments(many).count.tolist() == [12, 0]


def test_an_input_that_never_varies_is_only_centred() -> None:
    assert scale(moments(np.full((9, 1), 1.1, np.float32))) == ([1.10000002], [1.0])


@pytest.mark.parametrize(("scaling", "means"), [("site", [0, 0]), ("none", [10, 20])])
def test_a_site_may_scale_by_itself_or_not_at_all(scaling: str, means: list[float]) -> None:
    x = np.array([[9], [11], [np.nan], [18], [20], [22]], np.float32)
    source = Source(x, np.array([0, 1, 0, 1, 0, 1]), ["a", "b"], measured=True)
    parts = [np.arange(3), np.arange(3, 6)]
    prepare = Preparation(train_fraction=1.0, scaling=scaling)
    data = federate(source, parts, prepare, Streams(0))
    assert torch.isfinite(data.images).all()
    found = [data.client(k).images.mean().item() for k in range(2)]
    assert found == pytest.approx(means, abs=1e-5)


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    rows = [f"{'ns'[k % 2]},{random.normal(k % 2):.3f},{k % 3 % 2}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["site,a,ill", *rows]))
    return tmp_path / "t.csv"


def settings(patients: Path) -> dict[str, object]:
    about = {"source": "table", "path": str(patients), "target": "ill", "site": "site"}
    return {**{f"data.{key}": value for key, value in about.items()}, "model.name": "mlp"}


def test_what_is_agreed_comes_from_training_samples_and_is_written_down(patients: Path) -> None:
    config = resolve({}, settings(patients))
    source = load_source(config)
    settled = settle(config, source)
    assert (settled.data.scaling, settled.data.split) == ("federated", "stratified")
    data = make_data(settled, source)
    assert data.images.mean().abs() < 1e-6
    assert data.images.std(correction=0) == pytest.approx(1, abs=1e-5)
    assert data.test_images.mean().abs() > 1e-6
    assert settle(settled, source) == settled  # a run's own configuration agrees on nothing anew


def test_the_exchange_is_on_the_ledger(patients: Path, tmp_path: Path) -> None:
    quick = {"federation.rounds": 1, "algorithm.name": "fedavg", "engine.workers": 0}
    for scaling in ("federated", "site"):
        chosen = {**settings(patients), **quick, "data.scaling": scaling}
        fedkf.run(resolve_to(chosen, tmp_path / f"{scaling}.yaml"), out=tmp_path / scaling)
    ledgers = [
        json.loads((tmp_path / s / "ledger.json").read_text()) for s in ("federated", "site")
    ]
    up = ledgers[0]["training"]["up"]
    assert up["input_statistics"] == 2 * 3 * 8  # two sites, one input: count, mean, spread
    assert "input_statistics" in ledgers[0]["leakage"]
    assert "input_statistics" not in ledgers[1]["training"]["up"]


def resolve_to(settings: dict[str, object], file: Path) -> str:
    from fedkf.runs.config import to_yaml

    file.write_text(to_yaml(resolve({}, settings)))
    return str(file)
