"""Models and generators, by name or as a factory of the user's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object

if TYPE_CHECKING:
    from torch import nn

MODELS = {
    "lenet5": "fedkf.models.lenet:LeNet5",
    "resnet8": "fedkf.models.resnet:ResNet8",
    "resnet8-quarter": "fedkf.models.resnet:QuarterResNet8",
    "cnn1d": "fedkf.models.cnn1d:CNN1d",
    "mlp": "fedkf.models.mlp:MLP",
    "linear": "fedkf.models.mlp:Linear",
}
GENERATORS = {
    "released": "fedkf.models.generator:ReleasedGenerator",
    "dcgan": "fedkf.models.generator:DCGAN",
    "signal": "fedkf.models.cnn1d:SignalGenerator",
    "mlp": "fedkf.models.mlp:VectorGenerator",
}
FOR_IMAGES = ("lenet5", "resnet8", "resnet8-quarter", "released", "dcgan")
FOR_SIGNALS = ("cnn1d", "signal")


def check_name(key: str, name: str, known: Mapping[str, str]) -> None:
    """Refuse a name that is neither known nor of the form `package.module:factory`."""
    if ":" not in name and name not in known and name != "python":
        raise UserError(f"{key}: no {name!r}; {nearest(name, known)}")


def check_model_for(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a model that is made for inputs of another kind."""
    kind, takes = kind_of(shape), made_for(name)
    if takes not in (None, kind):
        fits = {"images": "lenet5, resnet8, resnet8-quarter, ", "signals": "cnn1d, "}.get(kind, "")
        raise UserError(
            f"model.name: {name} takes {takes}, but inputs have shape {[*shape]}; {fits}mlp or a "
            "model of your own takes them"
        )


def generator_for(name: str, shape: tuple[int, ...], for_images: str) -> str:
    """The generator of that name, or in its place the one that makes inputs of this shape."""
    kind = kind_of(shape)
    if made_for(name) in (None, kind):
        return name
    return {"images": for_images, "signals": "signal"}.get(kind, "mlp")


def made_for(name: str) -> str | None:
    """The only kind of inputs that a model or generator of ours is for, if there is one."""
    return "images" if name in FOR_IMAGES else "signals" if name in FOR_SIGNALS else None


def kind_of(shape: tuple[int, ...]) -> str:
    """What inputs of this shape are: images, signals, or vectors and everything else."""
    return {3: "images", 2: "signals"}.get(len(shape), "vectors")


def find(key: str, name: str, known: Mapping[str, str]) -> Callable[..., Any]:
    """The factory of that name."""
    check_name(key, name, known)
    if name == "python":
        raise UserError(f"{key}: this run's was given to fedkf.run as a function; give it again")
    factory: Any = import_object(known.get(name, name), key)
    return factory  # type: ignore[no-any-return]


def name_of(factory: Callable[..., nn.Module]) -> str:
    """`package.module:factory` where that leads back to the factory, else "python"."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is factory and module != "__main__" else "python"


def build(key: str, factory: Callable[..., nn.Module], offered: Mapping[str, Any]) -> nn.Module:
    """Call a factory with those of the offered arguments that it takes by name.

    One that takes two arguments of other names gets the first two offered, in that order.
    """
    from torch import nn

    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = {p.name: offered[p.name] for p in parameters if p.name in offered}
    missing = [
        p.name
        for p in parameters
        if p.name not in named
        and p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    positional = []
    if missing and len(missing) == 2 and not named:
        positional = list(offered.values())[:2]
    elif missing:
        raise UserError(
            f"{key}: the factory asks for {', '.join(missing)}; it may take none or any of "
            f"{', '.join(offered)}"
        )
    try:
        module = factory(*positional, **named)
    except Exception as error:
        raise UserError(f"{key}: the factory raised {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{key}: the factory returned a {type(module).__name__}, not an nn.Module")
    for part in module.modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag):
            part.register_forward_pre_hook(whole_numbers)
    return module


def whole_numbers(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs are kept as floats; what looks things up by number gets whole ones."""
    return (given[0].long(), *given[1:])
