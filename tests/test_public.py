"""The public interface is a promise: what it names, how it is called, that it is explained.

What is new is written down with `python tests/test_public.py`; so is a signature that changes on
purpose, which CHANGELOG.md tells.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import fedkf

PROMISED = Path(__file__).with_name("public_api.txt")


def members(value: Any) -> list[tuple[str, Any]]:
    """What a public class itself offers: its methods and properties, but no private ones."""
    found = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.startswith("fedkf"):
            found.update({k: v for k, v in vars(kind).items() if not k.startswith("_")})
    return sorted(found.items())


def described(name: str, value: Any) -> list[str]:
    """A line for each thing that can be called or read."""
    if inspect.ismodule(value):
        return [f"{name}.{key}" for key in value.__all__]
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}"]
    lines = [name if issubclass(value, Exception) else f"{name}{inspect.signature(value)}"]
    for key, member in members(value):
        inner = getattr(member, "__func__", member)
        called = inspect.isfunction(inner)
        lines.append(f"{name}.{key}{inspect.signature(inner) if called else ''}")
    return lines


def interface() -> str:
    lines = [line for name in fedkf.__all__ for line in described(name, getattr(fedkf, name))]
    return re.sub(" at 0x[0-9a-f]+", "", "\n".join(lines)) + "\n"


def test_nothing_that_is_promised_has_changed() -> None:
    before, now = PROMISED.read_text().splitlines(), interface().splitlines()
    gone = [line for line in before if line not in now]
    assert not gone, f"changed or gone: {gone}; now: {[x for x in now if x not in before]}"


@pytest.mark.parametrize("name", fedkf.__all__)
def test_everything_public_is_explained_with_an_example(name: str) -> None:
    value = getattr(fedkf, name)
    text = value.__doc__ or ""
    if inspect.ismodule(value):
        text += "".join(getattr(value, key).__doc__ or "" for key in value.__all__)
    assert ">>>" in text


@pytest.mark.parametrize("name", fedkf.__all__)
def test_everything_public_is_typed(name: str) -> None:
    value = getattr(fedkf, name)
    if inspect.isfunction(value):
        wanted = {*inspect.signature(value).parameters, "return"}
        assert wanted <= value.__annotations__.keys()


if __name__ == "__main__":
    PROMISED.write_text(interface())
