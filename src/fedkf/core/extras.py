"""What comes with an optional part of the package."""

from __future__ import annotations

import importlib.util

from fedkf.core.errors import UserError


def check_installed(extra: str, what: str, *modules: str) -> None:
    """Refuse `what` with a sentence, before any work is done, if a module of `extra` lacks."""
    if any(importlib.util.find_spec(module) is None for module in modules):
        raise UserError(f"{what}: {install(extra)}")


def install(extra: str) -> str:
    """The command that adds an extra."""
    return f"pip install 'fedkf[{extra}]'"
