"""Outsiders: sites that take no part, and at which models are judged all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedkf.core.payload import Weights
    from fedkf.core.server import Counts


@dataclass(frozen=True)
class Outsiders:
    """Sites whose samples lie here and train nothing: their names, and what counts at them."""

    names: Sequence[str]
    count: Callable[[Mapping[str, Weights]], Counts]
