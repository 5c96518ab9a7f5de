"""Holdout: sites that nothing is trained on: what one that joins tomorrow can expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedkf.core.errors import UserError, nearest
from fedkf.core.random import Streams
from fedkf.data.federated import FederatedData, Preparation, federate_tests
from fedkf.data.source import Source


def held_out(source: Source, names: Sequence[str]) -> tuple[Source, Source]:
    """The samples of those who take part, and of the sites that are held out, in this order."""
    if source.owners is None:
        raise UserError(
            f"data.holdout is {', '.join(names)}, but the source does not say whose its samples "
            "are; it needs client folders, an array `client` in the .npz, data.site or a Dataset "
            "per client"
        )
    for name in names:
        if name not in source.owner_names:
            raise UserError(f"data.holdout: no site {name!r}; {nearest(name, source.owner_names)}")
    rest = [name for name in source.owner_names if name not in names]
    if not rest:
        raise UserError("data.holdout names all sites, so that none is left to train")
    return owned_by(source, rest), owned_by(source, names)


def owned_by(source: Source, names: Sequence[str]) -> Source:
    """The samples of these sites, which are numbered anew."""
    assert source.owners is not None
    places = {name: k for k, name in enumerate(names)}
    numbers = np.array([places.get(name, -1) for name in source.owner_names], dtype=np.int64)
    owners = numbers[source.owners]
    kept = source.take(np.flatnonzero(owners >= 0))
    return replace(kept, owners=owners[owners >= 0], owner_names=list(names))


def federate_holdout(
    source: Source, prepare: Preparation, streams: Streams, participants: int
) -> FederatedData:
    """The held-out sites' samples as test samples, prepared as the participants' are.

    All of them test, for none has been trained on. Where the source itself says which samples test
    (`split` is given), these alone do: so the site is judged as it would be if it took part.
    """
    assert source.owners is not None
    parts = [np.flatnonzero(source.owners == k) for k in range(len(source.owner_names))]
    tested = source.tested if prepare.split == "given" else None
    if tested is not None:
        parts = [part[tested[part]] for part in parts]
    for name, part in zip(source.owner_names, parts, strict=True):
        if not len(part):
            raise UserError(f"data.holdout: {name} has no samples to test with")
    return federate_tests(source, parts, prepare, streams, participants)
