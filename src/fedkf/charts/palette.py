"""The colours and marks of everything that is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Style:
    """A colour with its mark, as plotly and as matplotlib call it, and a line's relative width."""

    colour: str
    symbol: str
    marker: str
    width: float = 1


# Okabe and Ito's colours, which stay apart for colour-blind readers, and two more.
PALETTE = (
    Style("#0072B2", "circle", "o"),
    Style("#D55E00", "diamond", "D"),
    Style("#009E73", "square", "s"),
    Style("#CC79A7", "triangle-up", "^"),
    Style("#E69F00", "x", "X"),
    Style("#56B4E9", "star", "*"),
    Style("#8C8C8C", "pentagon", "p"),
    Style("#A65E2E", "cross", "P"),
)


def style(number: int) -> Style:
    """The style of that number; where the colours begin again, lines are thinner, marks others."""
    again, place = divmod(number, len(PALETTE))
    marks = PALETTE[(place + 3 * again) % len(PALETTE)]
    return replace(PALETTE[place], symbol=marks.symbol, marker=marks.marker, width=1 / (1 + again))
