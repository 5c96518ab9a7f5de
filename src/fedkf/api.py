"""`fedkf.run`: the command line's experiment, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf import algorithms
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
    overridden: `rounds=30` is `federation.rounds`, and `data={"seed": 1}` names a key's section.
    Without `out` the run leaves no files behind.

    >>> result = run("digits", algorithm="fedavg", rounds=1, workers=0)
    >>> sorted(result.models)
    ['aca', 'oca']
    """
    if isinstance(config, Mapping):
        content = {str(k): v for k, v in config.items()}
    else:
        content, _ = configuration.read(config)
    chosen = content.get("algorithm") or {}
    if algorithm is None:
        algorithm = str(chosen.get("name", "fedkf"))
    kind = algorithms.get(algorithm) if isinstance(algorithm, str) else type(algorithm)
    flat: dict[str, Any] = {}
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": item for name, item in value.items()}
        else:
            flat[full_key(key, kind)] = value
    if isinstance(algorithm, str):
        flat["algorithm.name"] = algorithm
    else:
        flat["algorithm.name"] = algorithms.name_of(kind)
        flat |= {f"algorithm.{key}": getattr(algorithm, key) for key in kind.options()}
    if isinstance(model, str):
        flat["model.name"] = model
    return execute(
        configuration.resolve(content, flat, kind),
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


def full_key(key: str, algorithm: type[Algorithm]) -> str:
    """`rounds` → `federation.rounds`; where several sections have a key, federation's is meant."""
    if "." in key or key == "fidelity":
        return key
    valid = configuration.all_keys() + [f"algorithm.{name}" for name in algorithm.options()]
    matches = [full for full in valid if full.endswith(f".{key}")]
    if f"federation.{key}" in matches:
        return f"federation.{key}"
    if len(matches) > 1:
        sections = " or ".join(f"{full.split('.')[0]}={{{key!r}: …}}" for full in matches)
        raise UserError(f"{key} is in several sections; write {sections}")
    if not matches:
        raise UserError(f"no setting {key!r}; {nearest(key, valid)}")
    return matches[0]
