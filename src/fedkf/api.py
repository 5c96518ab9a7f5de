"""`fedkf.run`: the command line's experiment, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf import algorithms, models
from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError
from fedkf.core.federation import Observer, Stop
from fedkf.core.records import Round
from fedkf.data.datasets import from_object
from fedkf.data.proxy import from_object as from_unlabelled
from fedkf.data.source import Source
from fedkf.data.targets import Targets
from fedkf.runs import config as configuration
from fedkf.runs.advice import unknown
from fedkf.runs.defaults import chosen
from fedkf.runs.experiment import execute
from fedkf.runs.result import Result
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects

if TYPE_CHECKING:
    from torch import nn


def run(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    algorithm: str | Algorithm | None = None,
    model: str | Callable[..., nn.Module] | None = None,
    generator: str | Callable[..., nn.Module] | Mapping[str, Any] | None = None,
    clients: int | Mapping[str, Any] | None = None,
    dataset: Any = None,
    proxy: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: Callable[[dict[str, Any]], object] | None = None,
    observers: Sequence[Observer] = (),
    **overrides: Any,
) -> Result:
    """Train, and return the history and the models.

    `config` is a preset's name, a file or a dictionary. `model` and `generator` may be factories:
    functions that return an nn.Module and take no argument, or `shape` and `classes` (a generator:
    `shape` and `noise`). `clients` may map names to torch Datasets, one per site; `dataset` is one
    Dataset to be divided. Their images are tensors C×H×W in [0, 1]. `proxy` is unlabelled data for
    the server: an array or a Dataset (whose labels are dropped), or what `data.proxy` may be.

    Any key of the configuration can be overridden: `rounds=30` is `federation.rounds`, and
    `data={"seed": 1}` names a key's section; `task` may be a loss, a function of outputs and
    targets. `on_round` is called with every finished round;
    `observers` (fedkf.Observer) are told more. If `on_round` returns False, or any of them raises
    fedkf.Stop, the run ends after that round, finished; with `resume=True` it can go on later.
    Without `out` the run leaves no files behind.

    >>> result = run("digits", algorithm="fedavg", rounds=1, workers=0)
    >>> sorted(result.models)
    ['aca', 'oca']
    """
    check_types(algorithm, model, generator, on_round)
    for observer in observers:
        if not isinstance(observer, Observer):
            raise UserError(f"observers holds {observer!r}; it must hold fedkf.Observer objects")
    own_data = gives_data(clients, dataset)
    content = settings_of(config, {**named_source(overrides), **python_source(own_data)})
    if algorithm is None:
        chosen = content.get("algorithm") or {}
        named = chosen.get("name", "fedkf") if isinstance(chosen, Mapping) else chosen
        algorithm = str(overrides.pop("algorithm.name", named))
    kind = algorithms.get(algorithm) if isinstance(algorithm, str) else type(algorithm)
    unlabelled = proxy is not None and not isinstance(proxy, str | int | float)
    stand_in = from_unlabelled(proxy) if unlabelled else None
    if callable(overrides.get("task")):
        overrides["task"] = task_name(overrides["task"])
    settings, chosen_as = dotted(overrides, kind), chosen_keys(algorithm)
    if twice := sorted(settings.keys() & chosen_as.keys()):
        raise UserError(f"{twice[0]} is given as a keyword and by the algorithm; give it once")
    flat = {
        **settings,
        **chosen_as,
        **object_keys(model, generator),
        **({"data.clients": clients} if isinstance(clients, int) else {}),
        **python_source(own_data),
        **({} if proxy is None else {"data.proxy": "python" if unlabelled else proxy}),
    }
    resolved = configuration.resolve(content, flat, kind)
    source = given_source(clients, dataset, resolved.data.task) if own_data else None
    if source is not None and resolved.data.groups:
        raise UserError("data.groups names columns, which datasets of a program do not have")
    folder = out if out is not None else resolved.output.dir
    if resume and folder is None:
        raise UserError("resume has nothing to go on with; give the run's folder as out, too")
    own = kind.create(resolved.algorithm.model_dump(exclude={"name"}))
    make, generate = (made if callable(made) else None for made in (model, generator))
    given = Objects(own, make, generate, source, stand_in)
    path = Path(folder) if folder is not None else None
    return execute(resolved, path, resume, [OnRound(on_round), *observers], given=given)


def gives_data(clients: int | Mapping[str, Any] | None, dataset: Any) -> bool:
    """Whether samples are given as objects."""
    if clients is not None and not isinstance(clients, int | Mapping):
        raise UserError(
            f"clients is a {type(clients).__name__}; it must be a number, or map names to Datasets"
        )
    if isinstance(clients, Mapping) and dataset is not None:
        raise UserError("give clients={name: Dataset, …} or dataset=…, not both")
    return isinstance(clients, Mapping) or dataset is not None


def given_source(clients: int | Mapping[str, Any] | None, dataset: Any, task: str) -> Source:
    """The samples that were given as objects, with what the task asks for as labels."""
    if isinstance(clients, Mapping):
        return from_object(clients, targets=Targets(task))
    return from_object(dataset, "dataset", Targets(task))


def python_source(own_data: bool) -> dict[str, Any]:
    """What the configuration calls samples that are given as objects."""
    return {"data.source": "python"} if own_data else {}


def named_source(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The source of samples among the settings, if one is named."""
    section = overrides.get("data")
    there = section if isinstance(section, Mapping) else {}
    named = overrides.get("data.source", overrides.get("source", there.get("source")))
    return {} if named is None else {"data.source": named}


def settings_of(
    config: str | Path | Mapping[str, Any] | None, data: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of a configuration: a preset's, a file's, a dictionary's, or what suits."""
    if isinstance(config, Mapping):
        content: dict[str, Any] = plain(config)
        return content
    return chosen(config, data)[0]


def task_name(task: Any) -> str:
    """How a configuration names a task, or a loss, that is given as an object."""
    name = f"{task.__module__}:{task.__qualname__}"
    if "<" in name:
        raise UserError(
            f"task is {task.__qualname__}, which no other process could find; define it at the top "
            "level of a module or a notebook"
        )
    return name


def object_keys(model: Any, generator: Any) -> dict[str, Any]:
    """What the configuration says of a model and a generator that are named or given."""
    flat: dict[str, Any] = {}
    if isinstance(generator, Mapping):
        flat |= {f"generator.{key}": value for key, value in generator.items()}
        generator = None
    for key, value in (("model.name", model), ("generator.name", generator)):
        if value is not None:
            flat[key] = value if isinstance(value, str) else models.name_of(value)
    return flat


class OnRound(Observer):
    """Warns of refused uploads and idle rounds; calls the user's function after every round."""

    def __init__(self, function: Callable[[dict[str, Any]], object] | None) -> None:
        self.function = function

    def round_finished(self, record: Round) -> None:
        if not record.active:
            text = f"round {record.round}: no client was available, so that none trained"
            warnings.warn(text, stacklevel=2)
        for refusal in record.refused:
            text = f"round {record.round}: client {refusal.client} was left out"
            warnings.warn(f"{text}: {refusal.reason}", stacklevel=2)
        if self.function and self.function(record.as_json()) is False:
            raise Stop


def check_types(algorithm: Any, model: Any, generator: Any, on_round: Any) -> None:
    """Refuse what cannot be meant, with what would be."""
    from torch import nn

    if isinstance(algorithm, type):
        raise UserError(f"algorithm is a class; give an object, {algorithm.__name__}()")
    if algorithm is not None and not isinstance(algorithm, str | Algorithm):
        raise UserError(f"algorithm is {algorithm!r}; it must be a name or an Algorithm")
    for key, value in (("model", model), ("generator", generator)):
        if isinstance(value, nn.Module):
            raise UserError(f"{key} is a module; give a function that builds one: lambda: …")
    if on_round is not None and not callable(on_round):
        raise UserError(f"on_round is {on_round!r}; it must be a function of a round's record")


def plain(value: Any) -> Any:
    """NumPy's numbers and paths as a configuration has them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def dotted(settings: Mapping[str, Any], algorithm: type[Algorithm]) -> dict[str, Any]:
    """Settings as they are given to a function, such as `lr=0.1`, by their keys in full."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": plain(item) for name, item in value.items()}
        else:
            flat[full_key(key, algorithm)] = plain(value)
    return flat


def chosen_keys(algorithm: str | Algorithm) -> dict[str, Any]:
    """An algorithm's name, and the hyperparameters that it was given as an object."""
    if isinstance(algorithm, str):
        return {"algorithm.name": algorithm}
    given = {f"algorithm.{key}": getattr(algorithm, key) for key in algorithm.given}
    return {"algorithm.name": algorithms.name_of(type(algorithm)), **given}


def full_key(key: str, algorithm: type[Algorithm]) -> str:
    """`rounds` → `federation.rounds`; where several sections have a key, federation's is meant.

    But for privacy's: a run must not be less private than its caller thinks, so that these are
    ambiguous, unless the algorithm itself has a hyperparameter of that name.
    """
    if "." in key or key == "fidelity":
        return key
    if key in Config.model_fields:
        raise UserError(f"{key} is a section; write {key}={{…}} with its keys")
    valid = configuration.all_keys() + [f"algorithm.{name}" for name in algorithm.options()]
    matches = [full for full in valid if full.endswith(f".{key}")]
    if f"algorithm.{key}" in matches:
        matches = [full for full in matches if not full.startswith("privacy.")]
    if f"federation.{key}" in matches and f"privacy.{key}" not in matches:
        return f"federation.{key}"
    if len(matches) > 1:
        sections = " or ".join(f"{full.split('.')[0]}={{{key!r}: …}}" for full in matches)
        raise UserError(f"{key} is in several sections; write {sections}")
    if not matches:
        raise UserError(f"no setting {key!r}; {unknown(key, valid)}")
    return matches[0]
