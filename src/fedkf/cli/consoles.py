"""Where commands write: results to stdout, whatever else a person should know to stderr."""

from __future__ import annotations

from rich.console import Console

# What users name may look like markup; nothing is.
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
out = Console(highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A sentence on stderr, on one line however long."""
    err.print(text, soft_wrap=True)


def show(text: str) -> None:
    """A line of the result, on one line however long."""
    out.print(text, soft_wrap=True)
