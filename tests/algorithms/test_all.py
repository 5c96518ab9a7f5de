"""What holds for every algorithm: its size, its page, its tests, what it takes and declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from conftest import Outcome, Settings
from helpers import lines_of_code
from torch import nn

import fedkf
from fedkf import algorithms
from fedkf.core.client import Client
from fedkf.core.payload import Payload

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fedkf" / "algorithms"
LIMITS = {"fedprox": 25, "qffl": 40, "scaffold": 60, "moon": 60, "fedkf": 110}
TOGETHER = {"fedavgm": "fedopt", "fedadam": "fedopt", "fedyogi": "fedopt", "fedkf-": "fedkf"}
"""Algorithms that share a file."""


def file_of(name: str) -> str:
    return TOGETHER.get(name, name).replace("-", "_").replace("+", "_plus")


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_files_stay_short(name: str) -> None:
    path = SOURCE / f"{name}.py"
    if name in algorithms.names():
        assert lines_of_code(str(path)) <= LIMITS[name]


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_has_one_file_one_test_file_and_one_page(name: str) -> None:
    assert (SOURCE / f"{file_of(name)}.py").exists()
    assert list(Path(__file__).parent.glob(f"test_{file_of(name)}*.py"))
    page = ROOT / "docs" / "algorithms" / f"{name}.md"
    text = page.read_text()
    assert f"algorithm.name={name}" in text
    for option in algorithms.get(name).options():
        assert f"`{option}`" in text or f"`algorithm.{option}`" in text, option
    assert f"algorithms/{page.name}" in (ROOT / "docs" / "algorithms.md").read_text()


@pytest.mark.parametrize("name", algorithms.names())
def test_a_hyperparameter_that_it_does_not_have_is_refused(
    name: str, cli: Callable[..., Outcome]
) -> None:
    code, out, err = cli(
        "config", "--set", f"algorithm.name={name}", "--set", "algorithm.nonsense=1"
    )
    assert (code, out) == (2, "")
    assert f"algorithm.nonsense: {name} has no" in err
    for option in algorithms.get(name).options():
        assert option in err


@pytest.mark.parametrize("name", algorithms.names())
def test_a_value_out_of_range_is_refused_with_what_it_may_be(
    name: str, cli: Callable[..., Outcome]
) -> None:
    for option, about in algorithms.get(name).options().items():
        value = "maybe" if isinstance(about["default"], bool | str) else -1e9
        told = cli(
            "config", "--set", f"algorithm.name={name}", "--set", f"algorithm.{option}={value}"
        )
        assert told.code == 2, option
        assert f"algorithm.{option} is" in told.err
        assert "it must be" in told.err


class Pretrained(nn.Module):
    """A layer that is not to learn, two that are, and one that has no part in anything."""

    def __init__(self) -> None:
        super().__init__()
        self.given = nn.Linear(256, 6, bias=False).requires_grad_(False)
        self.given.weight.copy_(torch.linspace(-1, 1, 6 * 256).view(6, 256))
        self.hidden, self.head = nn.Linear(6, 4), nn.Linear(4, 3)
        self.idle = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.hidden(self.given(x.flatten(1)).tanh()).relu())
        return out


@pytest.mark.parametrize("name", algorithms.names())
def test_layers_that_are_not_to_learn_stay_as_they_were(name: str, settings: Settings) -> None:
    options: Settings = {"perfedavg": {"variant": "hessian-free"}, "pfedme": {"lr": 0.01}}
    if algorithms.get(name).needs_proxy_data:
        settings["data"]["proxy"] = 0.2
    run = partial(fedkf.run, settings, algorithm=name, model=Pretrained, **options.get(name, {}))
    for weights in run(rounds=2).weights.values():
        assert torch.equal(weights["given.weight"], Pretrained().given.weight)


@dataclass(frozen=True)
class Cheat(fedkf.Algorithm):
    """Sends what it does not declare."""

    name: ClassVar[str] = "cheat"

    def local_update(self, client: Client, down: Payload) -> Payload:
        counts = client.data.labels.bincount(minlength=3)
        return super().local_update(client, down).add("label_counts", {"counts": counts})


def test_an_undeclared_disclosure_is_refused_before_it_leaves(settings: Settings) -> None:
    with pytest.raises(fedkf.FedkfError, match=r"'label_counts'.*does not declare"):
        fedkf.run(settings, algorithm=Cheat(), workers=0)
