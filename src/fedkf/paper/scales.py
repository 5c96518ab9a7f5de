"""At what scale an experiment of the paper is repeated: which data, how long, how many seeds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedkf import algorithms
from fedkf.charts.labels import algorithm_label
from fedkf.core.errors import UserError, nearest
from fedkf.paper.published import ALPHAS, COMPARED
from fedkf.runs.suite import Plan, make_plan

STANDS_FOR = {
    "digits": "emnist",
    "letters": "emnist",
    "mnist": "emnist",
    "emnist": "emnist",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
}
"""The data set of the paper whose numbers stand beside ours."""


@dataclass(frozen=True)
class Scale:
    """The size of an experiment. The grids are those of the paper, or fewer of their values."""

    name: str
    size: str
    """Which data and how long, in words."""
    configs: Sequence[str]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    alphas: Sequence[float] = ALPHAS
    clients: Sequence[int] = (20, 50, 100)
    sweep_alphas: Sequence[float] = (0.01, 0.1, 1.0, 10.0)
    rates: Sequence[float] = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    tuning: Mapping[str, tuple[str, Sequence[float]]] = field(
        default_factory=lambda: {
            "fedprox": ("mu", (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)),
            "fedgkd": ("gamma", (0.001, 0.01, 0.1, 0.2, 0.5, 1.0)),
            "qffl": ("q", (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)),
        }
    )
    methods: Sequence[str] = COMPARED
    changed: Sequence[str] = ()
    """What of it was set otherwise, in words."""

    @property
    def about(self) -> str:
        """What it is, in words."""
        seeds = "one seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return "; ".join([f"{self.size}, {seeds}", *self.changed])

    def differs(self) -> str:
        """The sentence that keeps readers from comparing numbers that cannot be compared."""
        if self.name == "paper" and not self.overrides:
            return "The paper's own settings; in brackets what the paper prints."
        return (
            f"In brackets what the paper prints, for its own scale. This is the scale `{self.name}`"
            f" ({self.about}): scales differ, so compare the order of the rows, not the numbers."
        )


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "smoke",
            "1,797 embedded digits, 6 short rounds",
            ["digits"],
            {
                "federation.rounds": 6,
                "federation.local_epochs": 2,
                "federation.lr": 0.1,
                "generator.width": 4,
            },
            clients=(5, 10),
            sweep_alphas=(0.1, 10.0),
            rates=(0.1, 0.5, 1.0),
            tuning={
                "fedprox": ("mu", (1e-4, 1.0)),
                "fedgkd": ("gamma", (0.01, 1.0)),
                "qffl": ("q", (1e-4, 1.0)),
            },
        ),
        Scale(
            "small",
            "12,480 handwritten letters, 30 rounds, a narrow generator",
            ["letters"],
            {"federation.rounds": 30, "generator.preset": "lite"},
            clients=(20, 50),
            sweep_alphas=(0.01, 0.1, 1.0),
            tuning={
                "fedprox": ("mu", (1e-4, 1e-2, 1.0)),
                "fedgkd": ("gamma", (0.001, 0.1, 1.0)),
                "qffl": ("q", (1e-4, 1e-2, 1.0)),
            },
        ),
        Scale(
            "paper",
            "EMNIST, CIFAR-10 and CIFAR-100, 100 rounds",
            ["emnist", "cifar10", "cifar100"],
            seeds=(0, 1, 2),
        ),
    )
}


def choose(
    name: str,
    configs: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    methods: Sequence[str] = (),
    scales: Mapping[str, Scale] = SCALES,
) -> Scale:
    """A scale, with other data, settings, seeds or algorithms where they are given."""
    if name not in scales:
        raise UserError(f"--scale {name}: {nearest(name, scales)}")
    scale = scales[name]
    told = [f"{key} = {value}" for key, value in (overrides or {}).items()]
    changed: dict[str, Any] = {
        "overrides": {**scale.overrides, **(overrides or {})},
        "changed": [*scale.changed, *told],
    }
    if configs:
        changed["configs"] = list(configs)
        changed["size"] = f"{', '.join(configs)} as in `{name}`"
    if seeds is not None:
        changed["seeds"] = list(range(seeds))
    if methods:
        for method in methods:
            algorithms.get(method)  # a wrong name is told now
        changed["methods"] = list(methods)
    return replace(scale, **changed)


def installed(methods: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of these algorithms are there, and a sentence for each that is not."""
    known = algorithms.names()
    here = [name for name in methods if name in known]
    gone = [
        f"{algorithm_label(name)} is not among the algorithms here, so its rows are left out"
        for name in methods
        if name not in known
    ]
    return here, gone


def plans(scale: Scale, grid: Mapping[str, Sequence[Any]]) -> list[Plan]:
    """The runs of a grid over the scale's data and seeds. `config` comes first, seeds last."""
    full = {"config": scale.configs, **grid, "federation.seed": scale.seeds}
    points = (dict(zip(full, values, strict=True)) for values in itertools.product(*full.values()))
    return [make_plan(None, scale.overrides, point) for point in points]


def main_plans(
    scale: Scale, methods: Sequence[str] | None = None, alphas: Sequence[float] | None = None
) -> list[Plan]:
    """The runs behind the large tables and most of what follows from them."""
    here, _ = installed(methods or scale.methods)
    return plans(scale, {"algorithm.name": here, "data.alpha": alphas or scale.alphas})
