"""Where commands write: results to stdout, whatever else a person should know to stderr."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

# What users name may look like markup; nothing is.
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
out = Console(highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A sentence on stderr, on one line however long."""
    err.print(text, soft_wrap=True)


def once(say: Callable[[str], None], heard: set[str]) -> Callable[[str], None]:
    """Says what was not heard before."""

    def unheard(text: str) -> None:
        if text not in heard:
            heard.add(text)
            say(text)

    return unheard


def show(text: str) -> None:
    """A line of the result, on one line however long."""
    out.print(text, soft_wrap=True)
