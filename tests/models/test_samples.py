"""Samples that cost next to nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf import models
from fedkf.core.client import Client
from fedkf.core.errors import UserError
from fedkf.core.samples import Samples


@pytest.mark.parametrize("source", ["noise", "field", "warp"])
def test_free_samples_distil_without_a_generator_and_without_state(
    settings: Settings, tmp_path: Path, source: str
) -> None:
    result = fedkf.run(settings, generator={"samples": source}, out=tmp_path / "a")
    assert all(record["losses"]["kl"] >= 0 for record in result.history)
    assert "generator" not in result.history[-1]["losses"]
    assert list((tmp_path / "a" / "checkpoint" / "clients").iterdir()) == []
    fedkf.run(settings, generator={"samples": source}, workers=2, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    fedkf.run(settings, out=tmp_path / "trained")
    assert model_bytes(tmp_path / "a") != model_bytes(tmp_path / "trained")


def test_free_samples_with_gamma_0_are_fedavg(settings: Settings, tmp_path: Path) -> None:
    fedkf.run(settings, generator={"samples": "warp"}, gamma=0.0, out=tmp_path / "kf")
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "avg")
    assert model_bytes(tmp_path / "kf") == model_bytes(tmp_path / "avg")


@pytest.mark.parametrize("source", ["noise", "field", "warp"])
def test_images_are_normalised_as_the_data_is(
    settings: Settings, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[torch.Tensor] = []
    kind = models.find("generator.samples", source, models.SAMPLES)

    class Spy(kind):  # type: ignore[misc, valid-type]
        def draw(self) -> torch.Tensor:
            drawn.append(super().draw())
            return drawn[-1]

    monkeypatch.setitem(sys.modules, "spying", SimpleNamespace(Spy=Spy))
    fedkf.run(settings, generator={"samples": "spying:Spy"}, rounds=1)
    x = torch.cat(drawn)
    assert x.shape[1:] == (1, 16, 16)
    assert -1.001 <= x.min() < -0.5
    assert 0.5 < x.max() <= 1.001


class Zeros(Samples):
    """The smallest source of one's own."""

    def __init__(self, client: Client) -> None:
        self.shape = (client.task.training.batch_size, *client.task.shape)

    def draw(self) -> torch.Tensor:
        return torch.zeros(self.shape)


def test_a_source_of_ones_own_is_named_by_its_module(settings: Settings) -> None:
    result = fedkf.run(settings, generator={"samples": f"{__name__}:Zeros"})
    assert "kl" in result.history[0]["losses"]
    with pytest.raises(UserError, match=r"generator\.samples: no 'warps'; did you mean 'warp'"):
        fedkf.run(settings, generator={"samples": "warps"})


def test_vectors_take_noise_only(settings: Settings) -> None:
    from torch.utils.data import TensorDataset

    del settings["data"]
    vectors = TensorDataset(torch.randn(40, 6), torch.arange(40) % 2)
    fedkf.run(settings, dataset=vectors, clients=2, model="mlp", generator={"samples": "noise"})
    with pytest.raises(UserError, match="field and warp make images"):
        fedkf.run(settings, dataset=vectors, clients=2, model="mlp", generator={"samples": "warp"})
