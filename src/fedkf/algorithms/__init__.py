"""Every algorithm, one file each. A new file in this folder is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object

__all__ = ["get", "name_of", "names", "shares_model"]


@cache
def _registry() -> dict[str, type[Algorithm]]:
    found: dict[str, type[Algorithm]] = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Algorithm) and vars(value).get("name"):
                found[value.name] = value
    return found


def names() -> list[str]:
    """The names of all algorithms.

    >>> "fedkf" in names()
    True
    """
    return sorted(_registry())


def name_of(kind: type[Algorithm]) -> str:
    """The name under which a configuration finds an algorithm."""
    known = _registry().get(kind.name) is kind
    return kind.name if known else f"{kind.__module__}:{kind.__qualname__}"


def shares_model(name: str) -> bool:
    """Whether runs of that algorithm end in one model for all.

    A user's own algorithm counts as one that does: looking at a run imports none of its code.
    """
    kind = _registry().get(name)
    return kind is None or kind.shared_model


def get(name: str) -> type[Algorithm]:
    """The algorithm of that name, or the one that `package.module:Class` points to."""
    if ":" in name:
        value = import_object(name, "algorithm.name")
        if not (isinstance(value, type) and issubclass(value, Algorithm)):
            raise UserError(f"algorithm.name: {name} is not a subclass of fedkf.Algorithm")
        return value
    if name not in _registry():
        raise UserError(f"algorithm.name: no algorithm {name!r}; {nearest(name, names())}")
    return _registry()[name]
