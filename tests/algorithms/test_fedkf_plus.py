"""FedKF+: what its pool holds, when it is FedAvg or FedNTD, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checks import Normed, is_fedavg, refuses, survives
from conftest import Outcome, Settings
from torch import nn

import fedkf
from fedkf.algorithms.fedkf_plus import FedKFPlus, both, chance_of_alike
from fedkf.core.client import Client, ClientData
from fedkf.core.random import GlobalStream, Streams
from fedkf.core.samples import Samples
from fedkf.core.task import Task, Training
from fedkf.distillation.pool import Pool, drawn, outputs_of
from fedkf.runs.config import read, resolve


@pytest.mark.parametrize("model", [None, Normed], ids=["plain", "batch norm"])
def test_without_its_two_terms_and_its_drive_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Callable[..., nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedkf+", model, gamma=0.0, beta=0.0, drive=0.0)


@pytest.mark.parametrize("model", [None, Normed], ids=["plain", "batch norm"])
def test_workers_and_a_kill_change_nothing(
    settings: Settings, tmp_path: Path, model: Callable[..., nn.Module] | None
) -> None:
    result = survives(settings, tmp_path, "fedkf+", model, pool=32)
    assert {"kl", "not_true", "generator"} <= set(result.history[-1]["losses"])


def test_warped_samples_alone_need_no_generator(settings: Settings, tmp_path: Path) -> None:
    result = fedkf.run(settings, algorithm="fedkf+", rounds=2, warped=1.0, out=tmp_path)
    assert "kl" in result.history[-1]["losses"]
    assert "generator" not in result.history[-1]["losses"]
    assert not list((tmp_path / "checkpoint" / "clients").iterdir())


@pytest.mark.parametrize(
    ("labels", "chance"), [([0, 0, 0], 1.0), ([0, 1], 0.5), ([0, 0, 1, 2], 0.375)]
)
def test_how_alike_a_clients_samples_are(labels: list[int], chance: float) -> None:
    x, y = torch.zeros(len(labels), 1), torch.tensor(labels)
    task = Task(lambda: nn.Linear(1, 3), (1,), 3, Training(), Streams(0))
    client = Client(0, 1, ClientData(x, y, x[:0], y[:0]), task)
    assert chance_of_alike(client) == pytest.approx(chance)


class Counter(Samples):
    """0, 1, 2, …, three at a time whatever is asked for."""

    def __init__(self) -> None:
        self.next = 0

    def draw(self) -> torch.Tensor:
        self.next += 3
        return torch.arange(self.next - 3.0, self.next)[:, None]


def test_as_many_are_drawn_as_are_asked_for() -> None:
    assert drawn(Counter(), 7).flatten().tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_a_pool_serves_every_sample_once_before_any_again() -> None:
    teacher = nn.Linear(1, 2)
    parts = [torch.arange(4.0)[:, None], torch.arange(4.0, 9.0)[:, None]]
    pool = Pool(parts, teacher, 2, torch.Generator().manual_seed(0))
    first = [pool.at(step) for step in range(4)]
    served = torch.cat([x for x, _ in first]).flatten().tolist()
    assert len(set(served)) == 8
    assert served != sorted(served)
    for step, (x, taught) in enumerate(first):
        assert torch.equal(pool.at(step + 4)[0], x)
        assert torch.allclose(taught, outputs_of(teacher, x))


@pytest.mark.parametrize("pool", [2, 3])
def test_a_pool_with_one_generated_sample_works_where_batches_are_normalised(
    settings: Settings, pool: int
) -> None:
    """Half of the pool is warped, so that one is left to a generator for vectors."""
    settings["model"] = {"name": "mlp"}
    settings["generator"] = {"name": "mlp", "width": 4, "noise": 8}
    result = fedkf.run(settings, algorithm="fedkf+", rounds=2, pool=pool)
    assert not any(record["refused"] for record in result.history)
    assert "kl" in result.history[-1]["losses"]


class Stirring(nn.Module):
    """Layers that draw, and one that keeps statistics without normalising over batches."""

    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.InstanceNorm1d(2, track_running_stats=True)
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.drop(self.drop(self.normal(x)).flatten(1)))
        return out


def test_generated_samples_leave_no_trace_where_layers_draw_or_keep_statistics() -> None:
    task = Task(Stirring, (2, 4), 3, Training(batch_size=5), Streams(0))
    x, y = torch.randn(5, 2, 4, generator=torch.manual_seed(0)), torch.arange(5) % 3

    def seen(fake: torch.Tensor) -> dict[str, torch.Tensor]:
        client = Client(0, 1, ClientData(x, y, x[:0], y[:0]), task)
        client.start(task.initial_weights)
        with GlobalStream(1, "cpu").active():
            own = torch.stack([both(client, x, fake)[0] for _ in range(2)])
        return {"own": own.detach(), **client.upload()["weights"]}

    few, many = seen(torch.ones(2, 2, 4)), seen(torch.randn(7, 2, 4))
    assert all(torch.equal(few[name], many[name]) for name in few)
    assert not torch.equal(few["normal.running_mean"], torch.zeros(2))


def test_a_pool_of_one_sample_is_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "fedkf+", "pool", 1, "at least 2")


def test_a_small_pool_is_one_batch() -> None:
    pool = Pool([torch.ones(3, 1)], nn.Linear(1, 2), 16, torch.Generator())
    assert [len(pool.at(step)[0]) for step in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("name", ["resample", "adversarial"])
def test_what_needs_samples_made_step_by_step_is_refused(name: str) -> None:
    with pytest.raises(fedkf.UserError, match=f"algorithm.{name} is True"):
        FedKFPlus.create({name: True})


def test_shares_beyond_one_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "fedkf+", "warped", 1.5, "at most 1")


def test_the_papers_presets_give_it_a_small_generator() -> None:
    content, _ = read("letters")
    ours, theirs = (resolve(content, {"algorithm.name": name}) for name in ("fedkf+", "fedkf"))
    assert (ours.generator.width, theirs.generator.width) == (16, 128)
    wanted = resolve(content, {"algorithm.name": "fedkf+", "generator.preset": "paper"})
    assert wanted.generator.width == 128
