"""Modules that are imported late, or not at all, so that commands answer quickly."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
from collections.abc import Iterator
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


@contextlib.contextmanager
def without_compiler() -> Iterator[None]:
    """For a moment's work: PyTorch's optimizers import its compiler, which takes over a second,
    only to be told that nothing is compiled. Whatever else is asked of it, the real one answers.
    """
    import torch

    _ = torch.Tensor  # now it is loaded, compiler or not
    name = "torch._dynamo"
    stand_in: Any = Deferred(name)
    stand_in.disable = lambda function, *args, **kwargs: function
    stand_in.graph_break = lambda *args, **kwargs: None
    placed = sys.modules.setdefault(name, stand_in)
    try:
        yield
    finally:
        if placed is stand_in and sys.modules.get(name) is stand_in:
            del sys.modules[name]
