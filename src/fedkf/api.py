"""`fedkf.run`: the command line's experiment, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError, nearest
from fedkf.core.federation import Observer, Record
from fedkf.runs import config as configuration
from fedkf.runs.experiment import Result, execute

if TYPE_CHECKING:
    from torch import nn


def run(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    algorithm: str | Algorithm | None = None,
    model: str | Callable[[], nn.Module] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: Callable[[Record], object] | None = None,
    **overrides: Any,
) -> Result:
    """Train, and return the history and the models.

    `config` is a preset's name, a file or a dictionary. Any key of the configuration can be
    overridden: `rounds=30` is `federation.rounds`, and `**{"data.alpha": 0.5}` names a key in full.
    Without `out` the run leaves no files behind.

    >>> result = run("digits", algorithm="fedavg", rounds=1, workers=0)
    >>> sorted(result.models)
    ['aca', 'oca']
    """
    if isinstance(config, Mapping):
        content = {str(k): v for k, v in config.items()}
    else:
        content, _ = configuration.read(config)
    flat = {full_key(key): value for key, value in overrides.items()}
    if isinstance(algorithm, str):
        flat["algorithm.name"] = algorithm
    elif algorithm is not None:
        options = {key: getattr(algorithm, key) for key in algorithm.options()}
        kind = type(algorithm)
        name = algorithm.name or f"{kind.__module__}:{kind.__qualname__}"
        flat["algorithm.name"] = name
        flat |= {f"algorithm.{key}": value for key, value in options.items()}
    if isinstance(model, str):
        flat["model.name"] = model
    return execute(
        configuration.resolve(content, flat),
        Path(out) if out is not None else None,
        resume,
        [OnRound(on_round)] if on_round else [],
        algorithm=algorithm if isinstance(algorithm, Algorithm) else None,
        make_model=model if callable(model) else None,
    )


class OnRound(Observer):
    """Calls a function with every finished round."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self.function = function

    def round_finished(self, record: Record) -> None:
        self.function(record)


def full_key(key: str) -> str:
    """`rounds` → `federation.rounds`; where several sections have a key, federation's is meant."""
    if "." in key or key == "fidelity":
        return key
    matches = [full for full in configuration.all_keys() if full.endswith(f".{key}")]
    if f"federation.{key}" in matches:
        return f"federation.{key}"
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{key} is in several sections; write one of {', '.join(matches)} in full")
    short = {full.split(".")[-1] for full in configuration.all_keys()}
    raise UserError(f"no setting {key!r}; {nearest(key, short)}")
