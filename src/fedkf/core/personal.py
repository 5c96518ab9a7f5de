"""Personal models: what a client makes of the shared model after training, for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedkf.core.payload import Weights

if TYPE_CHECKING:
    from fedkf.core.client import Client

STEP = "evaluate_personal"
"""The step in which clients also judge models of their own; any algorithm has it."""
EVALUATIONS = ("evaluate", STEP)
"""Steps that judge models and train none that others will see."""


@dataclass(frozen=True)
class Personalisation:
    """The part of a task that says how a client makes the shared model its own."""

    make: Callable[[Client, Weights], Weights]
