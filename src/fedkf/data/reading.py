"""Reading: what a configuration says of how its files are to be read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkf.data.targets import Targets

MISSING_VALUES = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
"""What stands in a table where nothing was measured."""
SPELLINGS = (
    *("na", "n/a", "N.A.", "n.a.", "NAN", "NULL", "Null", "#N/A", "#NA", "<NA>", "NaT"),
    *("-", "--", ".", "missing", "Missing"),
)
"""What stands there, too, unless a configuration has a list of its own."""


OPEN = "auto"
"""What `data.decimal` is where files are to show it."""


def spelled(values: Sequence[str]) -> list[str]:
    """The cells that stand for nothing measured, by what a configuration lists."""
    return [*values, *(SPELLINGS if tuple(values) == MISSING_VALUES else ())]


def composed(value: Any) -> Any:
    """A text, or texts in lists and mappings, with ö as one character, however it was typed: what
    looks the same is the same (Unicode's NFC).

    >>> composed(["o\u0308"]) == ["ö"], composed(1)
    (True, 1)
    """
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list | tuple):
        return type(value)(composed(item) for item in value)
    if isinstance(value, dict):
        return {composed(key): composed(item) for key, item in value.items()}
    return value


def comparison(rule: str | None) -> re.Match[str] | None:
    """The parts of a `data.positive` such as '>0'; None where it is a value."""
    return re.fullmatch(r"(>=|<=|>|<|=)\s*(.+)", rule or "")


@dataclass(frozen=True)
class Reading:
    """How a source is read; what is None follows from the data.

    `target` is one column, or time and event for survival. `columns`, `categories` and `indicators`
    must be the same at all sites: in a rehearsal they come from the whole table, in a deployment
    from the configuration.
    """

    class_names: Sequence[str] | None = None
    image_size: int | None = None
    unreadable: str = "refuse"
    least_classes: int = 2
    task: str = "classification"
    target: str | Sequence[str] | None = None
    positive: str | None = None
    site: str | None = None
    split_by: str | None = None
    groups: Sequence[str] = ()
    columns: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    categorical: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] | None = None
    missing: str = "indicator"
    indicators: Sequence[str] | None = None
    missing_values: Sequence[str] = field(default_factory=lambda: spelled(MISSING_VALUES))
    decimal: str = OPEN
    window: int | None = None
    stride: int | None = None
    lenient: bool = False
    """Whether files are new ones for a model: they need not tell the site and the session, and must
    not contradict what is kept of how numbers are written."""

    @property
    def asked(self) -> Targets:
        """What labels are asked for."""
        from fedkf.data.targets import Targets  # which needs torch; a configuration does not

        return Targets(self.task, self.class_names, self.least_classes)

    @property
    def targets(self) -> list[str]:
        """The columns of the target."""
        given = self.target or ()
        return [given] if isinstance(given, str) else list(given)

    def names(self, name: str) -> bool:
        """Whether the cells of a column are names (of sites, people, categories, classes) and not
        measured, even if they are numbers."""
        if name in (self.site, self.split_by, *self.categorical, *(self.categories or ())):
            return True
        if name in self.groups:
            return name not in (self.columns or ())
        return name in self.targets and not self.measures(name)

    def measures(self, target: str) -> bool:
        """Whether a column of the target is a number, or becomes a class by its size."""
        from fedkf.core.objective import find  # which needs torch

        kind = find(self.task).targets
        number = kind == "number" or (kind == "time" and target == self.targets[0])
        return number or comparison(self.positive) is not None

    def unused(self, name: str) -> bool:
        """Whether nothing is read of a column: it is ignored, or others are named as inputs."""
        if name in (*self.targets, self.site, self.split_by, *self.groups):
            return False
        return name in self.ignore if self.columns is None else name not in self.columns
