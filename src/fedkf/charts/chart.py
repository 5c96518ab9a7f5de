"""What a chart shows, as data: one description for printed figures and for the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TICKS = 40
"""More names than this do not fit along an axis."""
LONGEST = 22
FEW = 30
"""A curve with as many points as this has no marks."""


@dataclass(frozen=True)
class Axis:
    """An axis. `names` stand at 0, 1, … where it lists things instead of measuring something."""

    label: str
    names: Sequence[str] = ()
    percent: bool = False
    whole: bool = False
    logarithmic: bool = False
    zero_line: bool = False

    @property
    def ticks(self) -> list[str]:
        """The names, cut to a length that fits; none if there are too many of them."""
        return [shortened(name) for name in self.names] if len(self.names) <= TICKS else []


@dataclass(frozen=True, kw_only=True)
class Series:
    """What is drawn under one name.

    `colour` is a number of the palette: what is the same thing has the same one in every chart.
    `hover` holds a text for each point, shown by a browser instead of its numbers.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: int = 0
    hover: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Lines(Series):
    """A curve through the points; `spread` is how far what it is the mean of scatters there."""

    dotted: bool = False
    spread: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Points(Series):
    """A mark for each point, with the interval about it where there are `intervals`.

    A browser hides hollow ones until they are asked for.
    """

    hollow: bool = False
    texts: Sequence[str] = ()
    intervals: Sequence[tuple[float, float]] = ()

    @property
    def arms(self) -> tuple[list[float], list[float]]:
        """How far each interval reaches below its mark and above it."""
        both = [(y or 0, ends) for y, ends in zip(self.y, self.intervals, strict=True)]
        return [y - low for y, (low, _) in both], [high - y for y, (_, high) in both]


@dataclass(frozen=True, kw_only=True)
class Bars(Series):
    """A bar for each point; `level` is a height to be marked across the chart."""

    level: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bubbles(Series):
    """A circle for each point, whose area says how much there is of it."""

    sizes: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """Series over one pair of axes; `description` stands for it where it cannot be seen."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    description: str = ""

    @property
    def heading(self) -> str:
        """The title without the label that stands along the axis."""
        return self.title.removeprefix(f"{self.y.label}: ")


@dataclass(frozen=True)
class Figure:
    """Charts on one sheet, in rows."""

    rows: Sequence[Sequence[Chart]]
    title: str = ""


@dataclass(frozen=True)
class Images:
    """Rows of images under the names of their columns.

    A row is an array N×C×H×W in [0, 1]; an image with NaN in it is left blank.
    """

    rows: Mapping[str, np.ndarray[Any, Any]]
    names: Sequence[str]


def sheet(charts: Sequence[Chart], title: str = "", columns: int = 3) -> Figure:
    """The charts one after the other, at most so many in a row."""
    rows = [charts[start : start + columns] for start in range(0, len(charts), columns)]
    return Figure(rows, title)


def shortened(text: str) -> str:
    """A name cut to what fits beside an axis."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def side_by_side(points: Points, chart: Chart) -> Sequence[float]:
    """Places of marks, moved apart so that equal ones of several series do not hide each other."""
    if len(chart.x.names) > TICKS:
        return points.x
    colours = 1 + max(series.colour for series in chart.series)
    shift = (points.colour - (colours - 1) / 2) * min(0.14, 0.7 / colours)
    return [x + shift for x in points.x]
