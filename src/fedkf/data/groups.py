"""Groups: what else is known of each sample, such as sex, age band, accent or device.

They are no inputs; models are judged by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError, nearest
from fedkf.core.limits import proper_text, shown
from fedkf.data.reading import MISSING_VALUES, SPELLINGS
from fedkf.data.source import Source

UNKNOWN = "unknown"
FEW_VALUES, BANDS, MOST = 8, 4, 50
"""Numbers with more values than the first are put into so many bands; texts with more than the
last are rather names than groups."""
MOST_DIGITS = 17
"""Of a number: no two have the same."""


def with_groups(
    source: Source,
    known: Mapping[str, NDArray[Any]],
    wanted: Sequence[str],
    missing: Sequence[str] = (*MISSING_VALUES, *SPELLINGS),
) -> Source:
    """The source with the groups that are wanted, of what is known of its samples."""
    found = {}
    for name in wanted:
        if name not in known:
            hint = nearest(name, known) if known else "it says nothing of its samples"
            raise UserError(f"data.groups: the source knows no {name!r}; {hint}")
        found[name] = grouped(name, known[name], missing)
    return replace(source, groups=found) if found else source


def grouped(name: str, values: NDArray[Any], missing: Sequence[str]) -> NDArray[np.str_]:
    """A group for each value: the value itself, or the band that a number lies in."""
    texts = np.array([str(value).strip() for value in values.tolist()], dtype=np.str_)
    absent = np.isin(texts, list(missing))
    numbers = as_numbers(texts[~absent])
    if numbers is None:
        result = texts
    else:
        result = np.full(len(texts), UNKNOWN, dtype="U60")
        result[~absent] = banded(numbers)
    result = np.where(absent, UNKNOWN, result)
    distinct = np.unique(result)
    if len(distinct) > MOST:
        raise UserError(
            f"data.groups: {name!r} has {len(distinct)} different values, such as "
            f"{shown(str(distinct[0]))}; groups are few, so that each has enough samples"
        )
    if improper := [str(value) for value in distinct if not proper_text(str(value))]:
        raise UserError(f"data.groups: {name!r} holds {shown(improper[0])}, which cannot be shown")
    return result


def as_numbers(texts: NDArray[np.str_]) -> NDArray[np.float64] | None:
    """The values as numbers, if all are."""
    try:
        found = texts.astype(np.float64)
    except ValueError:
        return None
    return found if len(found) and np.isfinite(found).all() else None


def banded(numbers: NDArray[np.float64]) -> list[str]:
    """Numbers as texts; many different ones as quarters, from a limit up to the next.

    >>> banded(np.array([3.0, 1.0]))
    ['3', '1']
    >>> sorted(set(banded(np.arange(20.0, 80.0))))
    ['35 to under 50', '50 to under 64', '64 and over', 'under 35']
    >>> sorted(set(banded(np.arange(1940.0, 2000.0))))
    ['1950 to under 1970', '1970 to under 1980', '1980 and over', 'under 1950']
    """
    if len(np.unique(numbers)) <= FEW_VALUES:
        return [f"{number:g}" for number in numbers]
    limits, digits = rounded(np.quantile(numbers, [k / BANDS for k in range(1, BANDS)]))
    told = [f"{limit:g}" if digits <= 6 else f"{limit:.{max(digits, 15)}g}" for limit in limits]
    middle = [f"{a} to under {b}" for a, b in itertools.pairwise(told)]
    names = [f"under {told[0]}", *middle, f"{told[-1]} and over"]
    return [names[place] for place in np.searchsorted(limits, numbers, side="right")]


def rounded(limits: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Limits with as few digits as keep them apart, and how many; two are the fewest."""
    for digits in range(2, MOST_DIGITS):
        found = np.unique([float(f"{limit:.{digits}g}") for limit in limits])
        if len(found) == len(np.unique(limits)):
            return found, digits
    return np.unique(limits), MOST_DIGITS
