"""Owners: which site holds each sample, by the names that a file gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import proper_text, shown
from fedkf.data.cells import Cells
from fedkf.data.source import Source


def refuse_unnamed(
    absent: NDArray[np.bool_], where: str, place: Callable[[int], str], site: str | None
) -> None:
    """Refuse samples of which some name no site; the first is named by its place."""
    if absent.any():
        first = place(int(np.flatnonzero(absent)[0]))
        raise UserError(
            f"{where}: {first} names no site ({site!r}); give it one, or change "
            "data.missing_values if what stands there is a name"
        )


def owned_by_name(source: Source, sites: Cells, where: str) -> Source:
    """The source with the site of each sample, in the order of their names."""
    names, owners = np.unique(sites, return_inverse=True)
    if improper := [str(name) for name in names if not proper_text(str(name))]:
        raise UserError(f"{where}: the site {shown(improper[0])} cannot be shown")
    return replace(source, owners=owners.astype(np.int64), owner_names=[str(n) for n in names])
