"""Outcome: what a round came to, and whether it can take the place of what was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fedkf.core.errors import UserError
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Diverged

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm

AFTER = "; it does not count, and --resume goes on after the last checkpoint"
"""What follows where a round ends in no model."""


def next_state(algorithm: Algorithm, round: int, work: Callable[[], object]) -> Payload:
    """The next state; one that is beyond arithmetic ends the run before the round counts."""
    try:
        state = work()
    except OverflowError as error:
        raise Diverged(f"round {round} came to numbers too large to compute with{AFTER}") from error
    if not isinstance(state, Payload):
        raise UserError(
            f"round {round} of {algorithm.name} came to {type(state).__name__}, not to a Payload; "
            "its round, or its aggregate, must return the next state"
        )
    return state


def fitting(algorithm: Algorithm, weights: Weights, model: Weights) -> Weights:
    """The weights that an algorithm came to, if they are those of a model like this one."""
    for name in sorted({*weights, *model}):
        have = list(weights[name].shape) if name in weights else "nothing"
        want = list(model[name].shape) if name in model else "nothing"
        if have != want:
            raise UserError(
                f"{algorithm.name} came to weights with {have} for {name!r}, where the model has "
                f"{want}"
            )
    return weights


def finite(round: int, models: Mapping[str, Weights]) -> None:
    """Refuse models that cannot be computed with; no such take the place of those before."""
    for weights in models.values():
        if name := not_finite(weights):
            raise Diverged(
                f"round {round} came to a model whose {name!r} holds NaN or infinite values{AFTER}"
            )


def not_finite(weights: Weights) -> str:
    """The first tensor with NaN or infinite values, or nothing."""
    floats = {name: t for name, t in weights.items() if t.is_floating_point()}
    return next((name for name, t in floats.items() if not t.isfinite().all()), "")
