"""The command line. Its entry point makes torch load only when work starts."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any


class Deferred(ModuleType):
    """Stands in for a module until an attribute of it is needed; then the module is imported."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)


def main() -> None:
    """Run the command line: help and mistakes answer at once, without waiting for torch."""
    if "torch" not in sys.modules:
        sys.modules["torch"] = Deferred("torch")
    from fedkf.cli.app import main as run

    run()
