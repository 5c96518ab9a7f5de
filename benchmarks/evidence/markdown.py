"""Tables and numbers in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NONE = "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def thousandths(value: float | None) -> str:
    return NONE if value is None else f"{1000 * value:.1f}"


def both(values: Sequence[str]) -> str:
    """ "57.9 / 66.6", or one dash where neither is known."""
    return NONE if all(value == NONE for value in values) else " / ".join(values)


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
