"""A layer that a model uses under two names is the same parameter for every rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings
from safetensors.torch import load_file
from torch import nn

import fedkf


class Recurrent(nn.Module):
    """One layer passed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(256, 8), nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x.flatten(1)).relu()
        out: torch.Tensor = self.last(self.again(self.again(hidden).relu()).relu())
        return out


class Tied(Recurrent):
    """The same with two names for it."""

    def __init__(self) -> None:
        super().__init__()
        self.more = self.again


RULES: dict[str, dict[str, Any]] = {
    "fedadam": {},
    "fedcm": {},
    "feddyn": {},
    "fedexp": {},
    "fedfv": {"tau": 2},
    "fedkf+": {"warped": 1.0},
    "fedmgda": {},
    "fednova": {},
    "fedsam": {},
    "perfedavg": {"variant": "hessian-free"},
    "pfedme": {"beta": 0.5},
    "qffl": {},
    "scaffold": {"server_lr": 0.5},
}


class Shared(Recurrent):
    """The same weights in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(8, 8)
        self.more.weight, self.more.bias = self.again.weight, self.again.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.again(self.first(x.flatten(1)).relu()).relu()
        out: torch.Tensor = self.last(self.more(hidden).relu())
        return out


@pytest.mark.parametrize("name", RULES)
def test_a_layer_with_two_names_is_trained_as_one_with_one(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    settings["algorithm"] = {"name": name, **RULES[name]}
    if name == "fedkf+":
        settings["federation"]["fraction"] = 0.17  # the server moves on where most are away
    for make in (Recurrent, Tied, Shared):
        fedkf.run(settings, model=make, out=tmp_path / make.__name__)
    one = load_file(tmp_path / "Recurrent/models/aca.safetensors")
    for other in (Tied, Shared):
        two = load_file(tmp_path / f"{other.__name__}/models/aca.safetensors")
        for part in ("weight", "bias"):
            assert torch.equal(two.pop(f"more.{part}"), two[f"again.{part}"])
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)
