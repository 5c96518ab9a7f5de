"""Objects of the user's own, named as `package.module:object`, and what they say of themselves."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection
from typing import Any

from fedkf.core.errors import UserError


def import_object(name: str, key: str) -> Any:
    """The object that `package.module:object` names; `key` is the setting that named it."""
    module_name, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(f"{key}: {name!r} cannot be imported ({error})") from error
    except Exception as error:
        raise UserError(
            f"{key}: importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from error
    try:
        for part in attribute.split("."):
            value = getattr(value, part)
    except AttributeError:
        raise UserError(f"{key}: {module_name!r} has no {attribute!r}") from None
    return value


def declares(kind: type, attribute: str, methods: Collection[str]) -> bool:
    """Whether a class says `attribute` of itself, for its own methods and those that it inherits.

    One that overrides any of `methods` says it again: its author may not have thought of it.
    """
    for each in kind.__mro__:
        if attribute in vars(each):
            return bool(vars(each)[attribute])
        if any(name in vars(each) for name in methods):
            return False
    return False
