"""The catalogue of wrong rules. To add one, add a line to a table in a file of `rules`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Change = tuple[str, str, str]
"""What is wrong, the text as it is, the text as it becomes."""


@dataclass(frozen=True)
class Rules:
    """A module of the package, the tests that should notice, and ways to get it wrong."""

    file: str
    tests: Sequence[str]
    changes: Sequence[Change]


@dataclass(frozen=True)
class Mutant:
    """One wrong rule, and what pytest is told to run against it."""

    module: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def oracles(name: str, *more: str, teaching: bool = False) -> list[str]:
    """The oracle's tests of an algorithm, then its own."""
    oracle = "test_oracles_teaching" if teaching else "test_oracles"
    files = (f"tests/algorithms/{oracle}.py", *more)
    return [*files, "-k", f"{name} or not test_oracles"]


def catalogue() -> list[Mutant]:
    """Every mutant, by module."""
    found = []
    for path in sorted((Path(__file__).parent / "rules").glob("*.py")):
        modules: Mapping[str, Rules] = importlib.import_module(f"rules.{path.stem}").MODULES
        for module, rules in modules.items():
            for says, old, new in rules.changes:
                tests = tuple(rules.tests)
                found.append(Mutant(module, says, f"src/fedkf/{rules.file}", old, new, tests))
    return found
