"""Models and generators, by name or as `package.module:factory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object

if TYPE_CHECKING:
    from torch import nn

MODELS = {"lenet5": "fedkf.models.lenet:LeNet5", "resnet8": "fedkf.models.resnet:ResNet8"}
GENERATORS = {
    "released": "fedkf.models.generator:ReleasedGenerator",
    "dcgan": "fedkf.models.generator:DCGAN",
}


def check_name(key: str, name: str, known: dict[str, str]) -> None:
    """Refuse a name that is neither known nor of the form `package.module:factory`."""
    if ":" not in name and name not in known:
        raise UserError(f"{key}: no {name!r}; {nearest(name, known)}")


def find(key: str, name: str, known: dict[str, str]) -> Callable[..., nn.Module]:
    """The factory of that name."""
    check_name(key, name, known)
    factory: Any = import_object(known.get(name, name), key)
    return factory  # type: ignore[no-any-return]
