"""The runs behind the golden files: their settings, the model of the small ones, the machine."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

GOLDEN = Path(__file__).parent

Settings = dict[str, Any]

CLOSE = 1e-5
"""How far a weight may lie off on another processor."""


class Small(nn.Module):
    """A thousand bytes of weights, with buffers of both kinds and no features of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm = nn.Linear(16, 8), nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        coarse = x[..., ::2, ::2].flatten(1)
        out: Tensor = self.linear(self.norm(self.hidden(coarse)).relu())
        return out


@dataclass(frozen=True)
class Begun:
    """A run that is broken off in the middle of a round.

    `round` is the round in progress, `committed` the one that the checkpoint holds by then,
    `close` how far the resumed model may lie off on another processor.
    """

    settings: Settings
    round: int = 4
    committed: int = 3
    signal: str = "KILL"
    close: float = CLOSE


COMMON: Settings = {
    "data.limit": 60,
    "data.clients": 4,
    "data.min_samples": 10,
    "federation.fraction": 0.5,
    "federation.local_epochs": 2,
    "generator.width": 4,
    "generator.noise": 8,
    "engine.workers": 0,
}

FINISHED: dict[str, Settings] = {
    "fedkf": {
        **COMMON,
        "algorithm.name": "fedkf",
        "model.name": "mlp",
        "federation.rounds": 4,
    },
    "scaffold": {
        **COMMON,
        "algorithm.name": "scaffold",
        "model.name": "mlp",
        "federation.rounds": 4,
        "federation.evaluate_every": 3,
    },
}

SMALL: Settings = {
    **COMMON,
    "model.name": "golden_runs:Small",
    "federation.rounds": 6,
    "federation.local_epochs": 4,
}

BEGUN: dict[str, Begun] = {
    "fedkf": Begun({**SMALL, "algorithm.name": "fedkf"}),
    "fedkf-coded": Begun(
        {
            **SMALL,
            "fidelity": "text",
            "algorithm.name": "fedkf",
            "transport.downlink": "delta8",
            "transport.uplink": "delta8",
        }
    ),
    "fedkf-server": Begun(
        {
            **SMALL,
            "algorithm.name": "fedkf-server",
            "algorithm.generator_steps": 5,
        }
    ),
    "scaffold": Begun({**SMALL, "algorithm.name": "scaffold"}),
    "mifa": Begun(
        {**SMALL, "algorithm.name": "mifa", "output.checkpoint_every": 2}, round=4, committed=2
    ),
    "fedgkd": Begun(
        {
            **SMALL,
            "algorithm.name": "fedgkd",
            "algorithm.buffer": 2,
            "overall.max_staleness": 2,
        },
        signal="INT",
    ),
    "fedgen": Begun(
        {
            **SMALL,
            "algorithm.name": "fedgen",
            "algorithm.hidden": 8,
            "algorithm.latent": 4,
        },
        # Its Adam makes full steps of gradients that are hardly more than rounding: 7e-5 was seen.
        close=5e-4,
    ),
    "fedadam": Begun({**SMALL, "algorithm.name": "fedadam"}),
    "pfedme": Begun({**SMALL, "algorithm.name": "pfedme"}),
}


def options(settings: Settings) -> list[str]:
    """The settings as `--set KEY=VALUE`."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def machine() -> dict[str, str]:
    """What the last bits of a floating-point result depend on."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
        named = [value.strip() for key, _, value in lines if key.strip() == "model name"]
        processor = named[0] if named else processor
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "processor": processor,
    }
