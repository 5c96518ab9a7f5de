"""The paper's own numbers: every cell of its tables of results, as data.

The files in `numbers` hold what is printed, digit by digit: percentages and multiples of a power of
ten, whose exponent differs from column to column. What comes out of here are plain fractions.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

DATA = {"emnist": "EMNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
ALPHAS = (1.0, 0.1, 0.01)
PAPER_METRICS = ("amp", "fm", "wlp")
"""What the paper's tables print."""

COMPARED = ("fedavg", "fedprox", "fedgen", "fedgkd", "qffl", "fedkf-", "fedkf")
"""The algorithms that the paper's tables compare, in its order."""


@dataclass(frozen=True)
class Published:
    """A printed cell as a fraction, its standard deviation, and how the paper marks it."""

    mean: float
    std: float
    mark: str = ""  # best (printed bold), second (underlined) or nothing


@dataclass(frozen=True, order=True)
class Case:
    """Which cell of the three large tables."""

    data: str
    alpha: float
    algorithm: str
    readout: str
    metric: str


@dataclass(frozen=True)
class Reached:
    """When a solution reached FedAvg's accuracy; `within` is False for a printed ">"."""

    amount: float
    within: bool
    speedup: float
    mark: str = ""


def rows(name: str) -> list[dict[str, str]]:
    """A table as it is printed, one dictionary per cell or row."""
    text = (resources.files("fedkf.paper") / "numbers" / f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def performance() -> dict[Case, Published]:
    """AMP, FM and WLP of every solution (tables "Performance of different solutions on …")."""
    return {
        Case(r["data"], float(r["alpha"]), r["algorithm"], r["readout"], r["metric"]): Published(
            *_fractions(r), r["mark"]
        )
        for r in rows("performance")
    }


@cache
def t1() -> dict[tuple[str, str, str], Published]:
    """FedAvg against FedAvg (OCA) at α = 0.1, by data, readout and metric."""
    return {(r["data"], r["readout"], r["metric"]): Published(*_fractions(r)) for r in rows("t1")}


@cache
def rounds_to_target() -> dict[tuple[str, str, str], Reached]:
    """Rounds to FedAvg's AMP of round 100, by data, algorithm and readout."""
    return {_solution(r): _reached(r, "rounds") for r in rows("rounds-to-target")}


@cache
def time_to_target() -> dict[tuple[str, str, str], Reached]:
    """Seconds to FedAvg's AMP of round 100, by data, algorithm and readout."""
    return {_solution(r): _reached(r, "seconds") for r in rows("time-to-target")}


@cache
def time() -> dict[tuple[str, str], float]:
    """Seconds of 100 rounds at α = 0.1 on the authors' machine, by data and algorithm."""
    return {(r["data"], r["algorithm"]): float(r["seconds"]) for r in rows("time")}


@cache
def operations() -> dict[str, dict[str, float]]:
    """Passes forward and backward for each batch of local data, by algorithm."""
    return {
        r["algorithm"]: {key: float(value) for key, value in r.items() if key != "algorithm"}
        for r in rows("operations")
    }


@cache
def distillation() -> dict[str, tuple[float, float]]:
    """Accuracies of teacher and data-free student, by data."""
    return {
        r["data"]: (float(r["teacher_accuracy"]) / 100, float(r["student_accuracy"]) / 100)
        for r in rows("distillation")
    }


def marks(values: Mapping[Key, float], lower: bool = False) -> dict[Key, str]:
    """Which values are the best and which the second best; equal values are marked alike.

    >>> marks({"a": 3.0, "b": 1.0, "c": 3.0, "d": 2.0})
    {'a': 'best', 'b': '', 'c': 'best', 'd': 'second'}
    """
    ranked: Sequence[float] = sorted(set(values.values()), reverse=not lower)
    names = dict(zip(ranked, ("best", "second"), strict=False))
    return {key: names.get(value, "") for key, value in values.items()}


def _fractions(row: Mapping[str, str]) -> tuple[float, float]:
    # Through the decimal text, so that 83.78 % is the float nearest to 0.8378.
    mean, std = (float(f"{row[key]}e{row['exponent']}") for key in ("mean", "std"))
    return mean, std


def _solution(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["data"], row["algorithm"], row["readout"]


def _reached(row: Mapping[str, str], what: str) -> Reached:
    amount = row[what]
    return Reached(
        float(amount.lstrip(">")),
        not amount.startswith(">"),
        float(row["speedup"].lstrip("<")),
        row["mark"],
    )
