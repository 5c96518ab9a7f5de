"""Models and generators for signals and vectors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings, model_bytes
from torch import nn
from torch.utils.data import TensorDataset

import fedkf
from fedkf.core.errors import UserError
from fedkf.models import generator_for
from fedkf.models.cnn1d import CNN1d, SignalGenerator
from fedkf.models.features import features_and_logits

SIGNALS = [(1, 1), (1, 5), (2, 48), (9, 128)]


@pytest.mark.parametrize("shape", SIGNALS)
@pytest.mark.parametrize("classes", [1, 5])
def test_cnn1d_takes_any_signal(shape: tuple[int, ...], classes: int) -> None:
    model, x = CNN1d(shape, classes), torch.randn(3, *shape)
    features, logits = features_and_logits(model, x)
    assert features.shape == (3, 64)
    assert torch.equal(logits, model(x))
    assert logits.shape == (3, classes)
    alone = model(x[:1])  # a sample's prediction does not depend on its neighbours
    assert torch.allclose(alone, logits[:1], atol=1e-5)
    assert not list(model.buffers())


def test_cnn1d_tells_an_early_peak_from_a_late_one() -> None:
    early, late = torch.zeros(1, 1, 64), torch.zeros(1, 1, 64)
    early[0, 0, 8], late[0, 0, 56] = 5.0, 5.0
    model = CNN1d((1, 64), 2)
    assert (model.features(early) - model.features(late)).abs().max() > 1e-3


@pytest.mark.parametrize("shape", SIGNALS)
@pytest.mark.parametrize("width", [1, 16])
def test_the_signal_generator_makes_normalised_signals_of_any_shape(
    shape: tuple[int, ...], width: int
) -> None:
    torch.manual_seed(0)
    made = SignalGenerator(shape, noise=5, width=width)(torch.randn(32, 5))
    assert made.shape == (32, *shape)
    assert made.mean((0, 2)).tolist() == pytest.approx([0.0] * shape[0], abs=1e-4)
    if width > 1:
        deviation = made.std((0, 2), correction=0).tolist()
        assert deviation == pytest.approx([1.0] * shape[0], abs=0.01)


def test_the_signal_generator_doubles_twice_like_the_released_one() -> None:
    generator = SignalGenerator((9, 126))
    assert generator.linear.out_features == 128 * math.ceil(126 / 4)
    doublings = [m for m in generator.modules() if isinstance(m, nn.ConvTranspose1d)]
    assert [(m.in_channels, m.out_channels) for m in doublings] == [(128, 128), (128, 64)]
    assert [generator.norm0.eps, generator.norm1.eps, generator.norm2.eps] == [1e-5, 0.8, 0.8]


@pytest.mark.parametrize(
    ("name", "shape", "fits"),
    [
        ("dcgan", (9, 128), "signal"),
        ("released", (13,), "mlp"),
        ("signal", (13,), "mlp"),
        ("signal", (1, 8, 8), "dcgan"),
        ("mlp", (9, 128), "mlp"),
        ("mine:make", (9, 128), "mine:make"),
    ],
)
def test_the_generator_follows_the_inputs(name: str, shape: tuple[int, ...], fits: str) -> None:
    assert generator_for(name, shape, "dcgan") == fits


def sites(shape: tuple[int, ...]) -> dict[str, TensorDataset]:
    """Two sites of two classes that differ in level."""
    random = torch.Generator().manual_seed(0)
    made = {}
    for name, count in (("north", 24), ("south", 16)):
        y = torch.arange(count) % 2
        level = y.float().view(-1, *(1 for _ in shape))
        made[name] = TensorDataset(torch.randn((count, *shape), generator=random) + level, y)
    return made


def small(settings: Settings, model: str, shape: tuple[int, ...]) -> dict[str, Any]:
    content = {k: v for k, v in settings.items() if k != "data"}
    return {
        "config": content,
        "clients": sites(shape),
        "model": model,
        "rounds": 2,
        "fraction": 1.0,
    }


KINDS = [("cnn1d", (2, 20)), ("mlp", (5,)), ("mlp", (2, 20))]


@pytest.mark.parametrize(("model", "shape"), KINDS)
def test_gamma_0_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: str, shape: tuple[int, ...]
) -> None:
    given = small(settings, model, shape)
    fedkf.run(**given, algorithm="fedavg", out=tmp_path / "avg")
    for samples in ("trained", "warp"):
        out = tmp_path / samples
        fedkf.run(**given, algorithm="fedkf", gamma=0.0, generator={"samples": samples}, out=out)
        assert model_bytes(out) == model_bytes(tmp_path / "avg")


@pytest.mark.parametrize("samples", ["trained", "warp"])
def test_signals_are_distilled_the_same_in_any_number_of_processes(
    settings: Settings, tmp_path: Path, samples: str
) -> None:
    given = small(settings, "cnn1d", (2, 20)) | {"generator": {"samples": samples}}
    result = fedkf.run(**given, algorithm="fedkf", out=tmp_path / "0", workers=0)
    fedkf.run(**given, algorithm="fedkf", out=tmp_path / "2", workers=2)
    assert model_bytes(tmp_path / "0") == model_bytes(tmp_path / "2")
    assert result.history[-1]["losses"]["kl"] > 0
    assert ("generator" in result.history[-1]["losses"]) == (samples == "trained")


def test_models_are_refused_for_inputs_that_they_cannot_take(settings: Settings) -> None:
    for model, shape, words in [
        ("lenet5", (2, 20), r"lenet5 takes images, but inputs have shape \[2, 20\]; cnn1d, mlp or"),
        ("cnn1d", (5,), r"cnn1d takes signals, but inputs have shape \[5\]; mlp or a model"),
    ]:
        with pytest.raises(UserError, match=words):
            fedkf.run(**small(settings, model, shape))
    images = {**settings, "model": {"name": "cnn1d"}}
    with pytest.raises(
        UserError, match=r"cnn1d takes signals, .* lenet5, resnet8, resnet8-quarter, mlp or"
    ):
        fedkf.run(images)
