"""What sums of different rounds give away together, so that none is opened that bares somebody.

Every upload is part of its round's sum and, once T1 counts it, of the sum that is taken out of T1
when its client is counted anew. So an upload is a line between two sums: the round's own, and that
of the later round, or of all that T1 still holds. Lines that are on a circle can be changed around
it without changing any sum; a line that is on none, a bridge, is known to whoever knows the sums.
(With ten clients in one round, nine of them in the next, the tenth's upload is the first sum less
what the second takes out.) T1 therefore counts only clients whose lines leave no bridge. What it
leaves out is taken out in the very round that made it, and its client's earlier upload stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

Line = tuple[int, int, int]
"""A client, the round of its upload, and the round that took it out of T1, or KEPT."""
KEPT = 0


def after(
    lines: Sequence[Line], round: int, counted: Collection[int], rest: Collection[int]
) -> list[Line]:
    """The lines when a round has these uploads, of which T1 takes those counted."""
    moved = [(k, s, round) if p == KEPT and k in counted else (k, s, p) for k, s, p in lines]
    new = [(k, round, KEPT if k in counted else round) for k in sorted({*counted, *rest})]
    return [*moved, *new]


def bare(lines: Sequence[Line]) -> list[Line]:
    """The lines that are bridges: uploads that follow from the sums."""
    ends: dict[tuple[str, int], list[tuple[int, tuple[str, int]]]] = defaultdict(list)
    for number, (_, made, taken) in enumerate(lines):
        ends["made", made].append((number, ("taken", taken)))
        ends["taken", taken].append((number, ("made", made)))
    found: list[Line] = []
    order: dict[tuple[str, int], int] = {}
    low: dict[tuple[str, int], int] = {}
    for root in list(ends):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        path = [(root, -1, iter(ends[root]))]
        while path:
            place, came_by, left = path[-1]
            for number, other in left:
                if number == came_by:
                    continue
                if other in order:
                    low[place] = min(low[place], order[other])
                    continue
                order[other] = low[other] = len(order)
                path.append((other, number, iter(ends[other])))
                break
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    low[before] = min(low[before], low[place])
                    if low[place] > order[before]:
                        found.append(lines[came_by])
    return found


def countable(lines: Sequence[Line], round: int, clients: Collection[int]) -> list[int]:
    """Of a round's clients, those that T1 can count without baring anybody; none at worst."""
    counted = sorted(clients)
    while counted:
        found = bare(after(lines, round, counted, clients))
        if not found:
            return counted
        counted.remove(culprit(found[0], lines, counted))
    return counted


def culprit(line: Line, lines: Sequence[Line], counted: Sequence[int]) -> int:
    """Whom to leave out for a bridge: its own client, or one whose move left it alone."""
    client, made, _ = line
    if client in counted:
        return client
    beside = [k for k, s, p in lines if s == made and p == KEPT and k in counted]
    return beside[0] if beside else counted[0]
