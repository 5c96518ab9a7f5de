"""An experiment: the runs behind a table or figure, and how a report is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedkf.paper.scales import SCALES, Scale
from fedkf.paper.tables import ResultTable
from fedkf.runs.collect import Group
from fedkf.runs.suite import Plan


@dataclass
class Report:
    """What came out: tables, files of figures, sentences."""

    tables: Sequence[ResultTable] = ()
    figures: list[Path] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


Make = Callable[[Sequence[Group], Scale, Path], Report]


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its runs, and how the report is made of them."""

    about: str
    plans: Callable[[Scale], list[Plan]]
    report: Make
    compares_methods: bool = True
    scales: Mapping[str, Scale] = field(default_factory=lambda: SCALES)
    here: Callable[[Sequence[Plan]], tuple[list[Plan], list[str]]] | None = None
    """Which of the runs have their data on this machine, and a sentence for what has not."""


def only_tables(make: Callable[[Sequence[Group], Scale], list[ResultTable]]) -> Make:
    """A report of tables alone."""
    return lambda groups, scale, folder: Report(make(groups, scale))
