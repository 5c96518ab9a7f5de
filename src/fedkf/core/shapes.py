"""Shapes: what a JSON file may hold, checked; whatever does not fit is damage, not data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Value = TypeVar("Value")
Kind = Callable[[object], Value]
"""Turns what JSON holds into a value, or raises Damage."""


class Damage(ValueError):
    """JSON that is not what it should be.

    >>> str(Damage("must be a text").within("reason").within("refused"))
    'refused.reason must be a text'
    """

    def __init__(self, what: str, path: tuple[str, ...] = ()) -> None:
        self.what, self.path = what, path
        super().__init__(" ".join([".".join(path), what] if path else [what]))

    def within(self, place: object) -> Damage:
        """The same as seen from what holds it."""
        return Damage(self.what, (str(place), *self.path))


def parse_json(content: bytes) -> Any:
    """JSON, or Damage."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Damage(f"is no JSON ({error})") from None


def mapping(content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise Damage(f"must be an object, not {type(content).__name__}")
    return content


def whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise Damage("must be a whole number of at least 0")
    return value


def integer(value: object) -> int:
    if type(value) is not int:
        raise Damage("must be a whole number")
    return value


def finite(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise Damage("must be a finite number")
    return value  # type: ignore[return-value]


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Damage("must be a text")
    return value


def accuracies(value: object) -> list[float | None]:
    """Shares between 0 and 1, or nothing for a client without test data."""
    if not isinstance(value, list):
        raise Damage("must be a list")
    known = [a for a in value if a is not None]
    if not all(type(a) in (int, float) for a in known) or not all(0 <= a <= 1 for a in known):
        raise Damage("must hold numbers between 0 and 1")
    return value


def many(kind: Kind[Value]) -> Kind[list[Value]]:
    def read(value: object) -> list[Value]:
        if not isinstance(value, list):
            raise Damage("must be a list")
        return [kind(item) for item in value]

    return read


def named(kind: Kind[Value]) -> Kind[dict[str, Value]]:
    def read(value: object) -> dict[str, Value]:
        return {name: take(mapping(value), name, kind) for name in mapping(value)}

    return read


def maybe(kind: Kind[Value]) -> Kind[Value | None]:
    return lambda value: None if value is None else kind(value)


def take(content: Mapping[str, Any], name: str, kind: Kind[Value]) -> Value:
    """The value of a key, which must be there."""
    if name not in content:
        raise Damage("is missing", (name,))
    try:
        return kind(content[name])
    except Damage as error:
        raise error.within(name) from None


def read_record(kind: type[Value], content: object, **kinds: Kind[Any]) -> Value:
    """A dataclass from an object; only fields with a default may be missing."""
    found = mapping(content)
    required = {
        f.name
        for f in fields(kind)  # type: ignore[arg-type]
        if f.default is MISSING and f.default_factory is MISSING
    }
    return kind(
        **{
            name: take(found, name, how)
            for name, how in kinds.items()
            if name in found or name in required
        }
    )
