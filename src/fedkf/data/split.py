"""Split: which of a client's samples train and which test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.partition import Indices
from fedkf.data.source import Source

Sides = tuple[list[Indices], list[Indices]]


def split(
    source: Source,
    parts: Sequence[Indices],
    fraction: float,
    random: np.random.Generator,
    how: str = "random",
) -> Sides:
    """Training and test samples of each client. Samples of one unit are on the same side.

    That holds across clients, too, where a unit has samples at several.
    `random`: the first `fraction` of a shuffle trains; a client always keeps one sample to train
    on. `stratified`: the same within each class. `given`: as the source says.
    """
    if how == "given":
        return given(source, parts)
    if source.units is not None:
        return by_units(source, parts, fraction, random)
    if how == "stratified":
        return stratified(source, parts, fraction, random)
    return shuffled(parts, fraction, random)


def shuffled(parts: Sequence[Indices], fraction: float, random: np.random.Generator) -> Sides:
    """The first `fraction` of a shuffle trains, the rest tests."""
    orders = [random.permutation(part) for part in parts]
    cuts = [kept(len(order), fraction) for order in orders]
    train = [order[:cut] for order, cut in zip(orders, cuts, strict=True)]
    return train, [order[cut:] for order, cut in zip(orders, cuts, strict=True)]


def stratified(
    source: Source, parts: Sequence[Indices], fraction: float, random: np.random.Generator
) -> Sides:
    """The same within each class."""

    def tested(part: Indices) -> NDArray[np.bool_]:
        return drawn(source.strata[part], len(part) - kept(len(part), fraction), random)

    return taken_apart(parts, tested, random)


def by_units(
    source: Source, parts: Sequence[Indices], fraction: float, random: np.random.Generator
) -> Sides:
    """Whole units train or test, at all clients where they have samples."""
    assert source.units is not None
    if spread(source.units, parts):
        shared = tested_everywhere(source, parts, fraction, random)
        return taken_apart(parts, lambda part: shared[part], random)
    return taken_apart(parts, lambda part: tested_units(source, part, fraction, random), random)


def taken_apart(
    parts: Sequence[Indices],
    tested: Callable[[Indices], NDArray[np.bool_]],
    random: np.random.Generator,
) -> Sides:
    """Each client's samples by whether they are tested; the others are shuffled."""
    train, test = [], []
    for part in parts:
        chosen = tested(part)
        train.append(random.permutation(part[~chosen]))
        test.append(part[chosen])
    return train, test


def kept(count: int, fraction: float) -> int:
    """How many of so many train."""
    return max(1, int(fraction * count))


def given(source: Source, parts: Sequence[Indices]) -> Sides:
    """The source's own division, in which every client has something to train on."""
    if source.tested is None:
        raise UserError("data.split is given, but the source says nothing of training and test")
    check_trained(source, source.tested, parts)
    return [p[~source.tested[p]] for p in parts], [p[source.tested[p]] for p in parts]


def check_trained(source: Source, tested: NDArray[np.bool_], parts: Sequence[Indices]) -> None:
    """Refuse a division by which a client has nothing to train on."""
    for k, part in enumerate(parts):
        if tested[part].all():
            own = source.owners is not None and (source.owners[part] == k).all()
            name = source.owner_names[k] if own else f"client {k}"
            other = "data.holdout tests there without training" if own else "so do fewer clients"
            raise UserError(
                f"data.split is given by the source, but all samples of {name} are test samples; "
                f"data.split stratified divides them anew, and {other}"
            )


def drawn(strata: NDArray[np.int64], wanted: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which of some things test: so many, of each stratum in proportion, and never all of one."""
    groups = [np.flatnonzero(strata == label) for label in np.unique(strata)]
    most = np.array([len(group) - 1 for group in groups])
    if not most.sum():
        most = most + 1
        wanted = min(wanted, len(strata) - 1)
    counts = allotted(np.array([len(group) for group in groups]), most, wanted)
    chosen = np.zeros(len(strata), bool)
    for group, count in zip(groups, counts.tolist(), strict=True):
        chosen[random.permutation(group)[:count]] = True
    return chosen


def allotted(sizes: NDArray[np.int64], most: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """So many things over groups in proportion to their sizes, at most as many as each allows."""
    shares = sizes * wanted / max(1, sizes.sum())
    counts: NDArray[np.int64] = np.minimum(np.floor(shares).astype(np.int64), most)
    while counts.sum() < min(wanted, most.sum()):
        left = np.where(counts < most, shares - counts, -np.inf)
        counts[int(left.argmax())] += 1
    return counts


def spread(units: NDArray[np.int64], parts: Sequence[Indices]) -> bool:
    """Whether any unit has samples at several clients."""
    held = np.concatenate([np.unique(units[part]) for part in parts])
    return len(np.unique(held)) < len(held)


def tested_everywhere(
    source: Source, parts: Sequence[Indices], fraction: float, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which of all samples test, where units have samples at several clients.

    A client that would be left with nothing to train on trains on the unit it has most of.
    """
    assert source.units is not None
    everything = np.sort(np.concatenate(parts))
    chosen = np.zeros(len(source.units), bool)
    chosen[everything] = tested_units(source, everything, fraction, random)
    for part in parts:
        if len(part) and chosen[part].all():
            units, counts = np.unique(source.units[part], return_counts=True)
            chosen[source.units == units[counts.argmax()]] = False
    return chosen


def tested_units(
    source: Source, part: Indices, fraction: float, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which samples of a client test: those of some units, of each class in proportion."""
    assert source.units is not None
    units, inverse = np.unique(source.units[part], return_inverse=True)
    strata = source.strata[part]
    common = np.array([np.bincount(strata[inverse == k]).argmax() for k in range(len(units))])
    # Few units cannot test every class: which ones go first is drawn, not their order of names.
    common = random.permutation(int(strata.max(initial=0)) + 1)[common]
    wanted = round((1 - fraction) * len(units))
    if fraction < 1 and len(units) > 1:
        wanted = max(1, wanted)
    chosen = drawn(common, min(wanted, len(units) - 1), random)
    sizes, share = np.bincount(inverse), (1 - fraction) * len(part)
    if len(units) > 2 and not share / 2 <= sizes[chosen].sum() <= 2 * share:
        chosen = drawn_by_size(common, sizes, share, random)
    return chosen[inverse]


def drawn_by_size(
    strata: NDArray[np.int64], sizes: NDArray[np.int64], wanted: float, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which units of very unequal sizes test: so many samples, of each stratum in proportion.

    In a random order each that brings a stratum nearer to its share, and never all of one; where
    none does, the one whose size is nearest.
    """
    groups = [np.flatnonzero(strata == label) for label in np.unique(strata)]
    if all(len(group) == 1 for group in groups):
        groups = [np.arange(len(strata))]
    chosen = np.zeros(len(strata), bool)
    for group in groups:
        left = wanted * sizes[group].sum() / sizes.sum()
        for unit in random.permutation(group)[:-1]:
            if sizes[unit] < 2 * left:
                chosen[unit], left = True, left - sizes[unit]
    if not chosen.any():
        free = np.concatenate([group for group in groups if len(group) > 1])
        chosen[free[np.abs(sizes[free] - wanted).argmin()]] = True
    return chosen
