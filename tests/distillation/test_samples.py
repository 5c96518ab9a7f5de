"""Samples that cost next to nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, model_bytes
from safetensors.torch import save_file

import fedkf
from fedkf import models
from fedkf.core.client import Client
from fedkf.core.errors import UserError
from fedkf.core.samples import Samples
from fedkf.distillation import SAMPLES
from fedkf.distillation.generators import TrainedGenerator
from fedkf.models.generator import ReleasedGenerator
from fedkf.runs.config import resolve
from fedkf.runs.schema import GENERATOR_PRESETS


@pytest.mark.parametrize("source", ["noise", "field", "warp"])
def test_free_samples_distil_without_a_generator_and_without_state(
    settings: Settings, tmp_path: Path, source: str
) -> None:
    result = fedkf.run(settings, generator={"samples": source}, out=tmp_path / "a")
    assert all(record["losses"]["kl"] > 1e-7 for record in result.history)
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
    kind = models.find("generator.samples", source, SAMPLES)

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


def test_vectors_take_noise_and_warps_but_no_fields(settings: Settings) -> None:
    from torch.utils.data import TensorDataset

    del settings["data"]
    vectors = TensorDataset(torch.randn(40, 6), torch.arange(40) % 2)
    for source in ("noise", "warp"):
        generator = {"samples": source}
        fedkf.run(settings, dataset=vectors, clients=2, model="mlp", generator=generator)
    with pytest.raises(UserError, match="field makes images; noise and warp make any inputs"):
        fedkf.run(settings, dataset=vectors, clients=2, model="mlp", generator={"samples": "field"})


class Watched(TrainedGenerator):
    """A trained generator that keeps what it drew and learned."""

    batches: ClassVar[list[torch.Tensor]] = []
    learned: ClassVar[list[int]] = []

    def draw(self) -> torch.Tensor:
        self.batches.append(super().draw())
        return self.batches[-1]

    def learn(self, loss: torch.Tensor) -> None:
        self.learned.append(len(self.batches))
        super().learn(loss)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setitem(sys.modules, "watching", SimpleNamespace(Watched=Watched))
    Watched.batches.clear()
    Watched.learned.clear()
    return Watched


def one_client(settings: Settings, **options: Any) -> None:
    """A round of one client with twelve steps."""
    fedkf.run(
        settings,
        fidelity="released",
        first_round="distil",
        clients=1,
        rounds=1,
        steps=12,
        local_epochs=1,
        generator={"samples": "watching:Watched", "name": "released", **options},
    )


def test_generated_batches_can_be_smaller(settings: Settings, watched: type[Watched]) -> None:
    one_client(settings, batch_size=3)
    assert [len(batch) for batch in watched.batches] == [3] * 12
    assert watched.learned == [*range(1, 13)]


def test_the_generator_can_learn_from_every_fourth_batch(
    settings: Settings, watched: type[Watched]
) -> None:
    one_client(settings, every=4)
    assert len(watched.batches) == 12
    assert [batch.requires_grad for batch in watched.batches] == [True, False, False, False] * 3
    assert watched.learned == [1, 5, 9]


def test_a_batch_can_serve_several_steps(settings: Settings, watched: type[Watched]) -> None:
    one_client(settings, reuse=3)
    assert len(watched.batches) == 4
    assert watched.learned == [1, 2, 3, 4]


@pytest.mark.parametrize("options", [{"every": 2}, {"reuse": 2}, {"batch_size": 2}])
@pytest.mark.parametrize("fidelity", ["text", "released"])
def test_cheaper_batches_resume_exactly_and_do_not_depend_on_workers(
    settings: Settings, tmp_path: Path, options: dict[str, int], fidelity: str
) -> None:
    def run(name: str, **more: Any) -> dict[str, bytes]:
        out = tmp_path / name
        fedkf.run(settings, fidelity=fidelity, generator=options, out=out, **more)
        return model_bytes(out)

    whole = run("whole", rounds=3, workers=0)
    run("parts", rounds=2, workers=2)
    assert run("parts", rounds=3, workers=2, resume=True) == whole


def test_all_generators_can_start_from_a_file(
    settings: Settings, tmp_path: Path, watched: type[Watched]
) -> None:
    file = tmp_path / "start.safetensors"
    one_client(settings)
    random = watched.batches[0]
    watched.batches.clear()
    save_file(ReleasedGenerator((1, 16, 16), 8, 5).state_dict(), file)
    with pytest.raises(UserError, match=r"generator.start: .* where the generator has"):
        one_client(settings, start=str(file))
    with pytest.raises(UserError, match=r"generator.start: .*nowhere.* cannot be read"):
        one_client(settings, start=str(tmp_path / "nowhere"))
    given = ReleasedGenerator((1, 16, 16), 8, 4, [0.5], [0.5])
    torch.nn.init.zeros_(given.conv3.weight)
    torch.nn.init.zeros_(given.conv3.bias)  # type: ignore[arg-type]
    save_file(given.state_dict(), file)
    one_client(settings, start=str(file))
    assert random.abs().max() > 0
    assert torch.equal(watched.batches[0], torch.zeros_like(random))  # sigmoid(0), normalised


def test_a_file_to_start_from_must_stay_the_same(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "start.safetensors"
    generator = ReleasedGenerator((1, 16, 16), 8, 4)
    save_file(generator.state_dict(), file)
    settings["generator"] |= {"name": "released", "start": str(file)}
    fedkf.run(settings, algorithm="fedkf", rounds=1, out=tmp_path / "run")
    fedkf.run(settings, algorithm="fedkf", rounds=2, out=tmp_path / "run", resume=True)
    torch.nn.init.zeros_(generator.conv3.weight)
    save_file(generator.state_dict(), file)
    with pytest.raises(UserError, match=r"the generator in generator.start is not the one"):
        fedkf.run(settings, algorithm="fedkf", rounds=3, out=tmp_path / "run", resume=True)


def test_presets_of_the_generator_and_what_wins_over_them() -> None:
    def generator(content: dict[str, Any], **overrides: Any) -> tuple[str, int]:
        found = resolve(content, overrides).generator
        return found.preset, found.width

    paper, lite = (GENERATOR_PRESETS[name]["width"] for name in ("paper", "lite"))
    assert paper == 128
    assert generator({}) == ("lite", lite)
    assert generator({"generator": {"preset": "paper"}}) == ("paper", paper)
    assert generator({"generator": {"preset": "lite"}}) == ("lite", lite)
    assert generator({"generator": {"preset": "lite", "width": 5}}) == ("lite", 5)
    own = {"generator": {"width": 5}}
    assert generator(own) == ("lite", 5)
    assert generator(own, **{"generator.preset": "lite"}) == ("lite", lite)
    both = {"generator.preset": "lite", "generator.width": 7}
    assert generator(own, **both) == ("lite", 7)
    with pytest.raises(UserError, match=r"generator.preset is 'litte'; it must be 'paper' or"):
        generator({"generator": {"preset": "litte"}})
