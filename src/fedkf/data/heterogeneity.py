"""Heterogeneity: how different the clients' data are, in labels and in what labels do not show.

Inputs are measured on a sample of them, as the model gets them, in closed form: tens of thousands
of images take seconds, and the same data give the same numbers. All measures leave out what chance
shows by itself: they are near 0 where samples were dealt out at random, however few they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkf.core.random import Streams
from fedkf.data.features import Floats, Ints, Sample, features, guesses, lift
from fedkf.data.findings import findings

if TYPE_CHECKING:
    from fedkf.data.federated import FederatedData

SITES = 64
"""So many clients at most are compared; of more, so many are drawn."""
SAMPLES = 3000
"""Of training samples at most, and as many test samples, in equal shares of the clients."""
OWN, OWN_MOST, TESTS = 20, 200, 5
"""Training samples of a model of a client's own, at least and at most, and test samples, without
which none is set against the others'."""
DRAWS = 3
"""Of models for each client, and of what chance shows; their mean counts."""
TOLD = 0.95
"""Where labels alone tell so many samples' client, inputs have nothing to add."""


def measure(data: FederatedData, seed: int = 0) -> dict[str, Any]:
    """What differs between clients: labels, sizes, inputs of a class, what inputs mean.

    `inputs`: how often a small classifier names the client of a held-out sample, where `score` is 0
    for what the label alone tells and 1 for always; `means` and `spreads` are the shares of the
    inputs' variance within a class that the client explains. `transfer`: by how much more often a
    small model of a client's own samples is right than one of as many of the others'.
    """
    random = Streams(seed).numpy_generator("heterogeneity")
    counts = data.class_counts()
    found: dict[str, Any] = {"labels": label_shift(counts), "quantity": quantity(counts.sum(1))}
    several = [k for k, size in data.sizes.items() if size > 1]
    if len(several) < 2 or not len(data.test_images):
        return told(rounded(found))
    sites = sorted(random.permutation(several)[:SITES].tolist())
    fit, test = features(data, sites, SAMPLES, random)
    moments = moments_shift(fit + test, random)
    lifted = lift(fit.x.shape[1], random)
    fit, test = lifted(fit), lifted(test)
    found["compared"] = len(sites)
    found["inputs"] = {**moments, **named(told_apart(fit, test), data, sites)}
    found["transfer"] = named(transfer(fit, test, random), data, sites)
    return told(rounded(found))


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The measures, with what follows from them in words."""
    return {**found, "findings": findings(found)}


def named(found: dict[str, Any], data: FederatedData, sites: Sequence[int]) -> dict[str, Any]:
    """The same with the clients' names for their places among those compared."""
    own = {data.names[sites[k]]: value for k, value in found.get("clients", {}).items()}
    return {**found, "clients": own}


def rounded(values: Any) -> Any:
    """The same with numbers of four digits, which any machine finds."""
    if isinstance(values, dict):
        return {key: rounded(value) for key, value in values.items()}
    return round(float(values), 4) if isinstance(values, float) else values


def label_shift(counts: Ints) -> float:
    """Mean distance of a client's labels from all clients', less what chance makes of its size."""
    sizes = counts.sum(1)
    pooled = counts.sum(0) / counts.sum()
    distance = 0.5 * np.abs(counts / sizes[:, None] - pooled).sum(1)
    spread = 0.5 * np.sqrt(2 * pooled * (1 - pooled) / math.pi).sum()
    others = 1 - sizes / sizes.sum()  # a client is part of what it is compared with
    chance = np.minimum(0.999, spread * np.sqrt(others / sizes))
    return float(max(0.0, ((distance - chance) / (1 - chance)).mean()))


def quantity(sizes: Ints) -> float:
    """0 where all clients hold as much, towards 1 where one of many holds nearly everything."""
    shares = sizes / sizes.sum()
    return float(max(0.0, 1 - 1 / (len(sizes) * (shares**2).sum())))


def moments_shift(sample: Sample, random: np.random.Generator) -> dict[str, float]:
    """How much of the variance within a class the client explains: of features, of their spread.

    Less what remains where samples of a class change clients at random: small clients, whose
    spread is never known well, would show some.
    """
    found, chance = moments_explained(sample), np.zeros(2)
    for _ in range(DRAWS):
        order = np.arange(len(sample.site))
        for stratum in np.unique(sample.stratum):
            own = np.flatnonzero(sample.stratum == stratum)
            order[own] = random.permutation(own)
        chance += moments_explained(replace(sample, site=sample.site[order])) / DRAWS
    means, spreads = np.maximum(0, (found - chance) / (1 - chance)).tolist()
    return {"means": means, "spreads": spreads}


def moments_explained(sample: Sample) -> Floats:
    """The same, before that is taken off."""
    cells = sample.stratum * (sample.site.max() + 1) + sample.site
    _, places, counts = np.unique(cells, return_inverse=True, return_counts=True)
    means = totals(sample.x, places) / counts[:, None]
    kept = (counts > 1)[places]
    gaps = np.abs(sample.x - means[places])[kept]
    parts = ((sample.x, slice(None)), (gaps, kept))
    return np.array([explained(x, sample.stratum[some], cells[some]) for x, some in parts])


def explained(x: Floats, groups: Ints, cells: Ints) -> float:
    """The share of the variance within groups that lies between their cells (ω², mean over all
    features), corrected for what as many random cells would show."""
    (_, outer), (_, inner) = (np.unique(g, return_inverse=True) for g in (groups, cells))
    count, wide, narrow = len(x), outer.max(initial=-1) + 1, inner.max(initial=-1) + 1
    if narrow <= wide or count <= narrow:
        return 0.0
    within, total = (left_over(x, places) for places in (inner, outer))
    noise = within / (count - narrow)
    between = total - within - (narrow - wide) * noise
    varying = total > 1e-9 * count
    shares = np.divide(between, total + noise, out=np.zeros_like(total), where=varying)
    return float(shares[varying].mean()) if varying.any() else 0.0


def left_over(x: Floats, places: Ints) -> Floats:
    """Squared deviations from the means of each place."""
    means = totals(x, places) / np.bincount(places)[:, None]
    result: Floats = ((x - means[places]) ** 2).sum(0)
    return result


def totals(x: Floats, places: Ints) -> Floats:
    found = np.zeros((places.max() + 1, x.shape[1]))
    np.add.at(found, places, x)
    return found


def told_apart(fit: Sample, test: Sample) -> dict[str, Any]:
    """How often a small classifier names the client of a held-out sample, each client counted once.

    Nothing where nothing is held out, or where labels alone tell nearly everything.
    """
    tested = np.unique(test.site)
    if len(tested) < 2:
        return {}
    sizes = np.bincount(fit.site)
    weights = len(fit.site) / (len(sizes) * sizes[fit.site])
    named = guesses(fit.x, fit.site, weights, test.x)
    held = np.zeros((len(sizes), int(max(fit.stratum.max(), test.stratum.max())) + 1))
    np.add.at(held, (fit.site, fit.stratum), 1)
    by_label = (held / sizes[:, None]).argmax(0)[test.stratum]
    own = {int(k): float((named == test.site)[test.site == k].mean()) for k in tested}
    known = np.mean([(by_label == test.site)[test.site == k].mean() for k in tested])
    chance = max(1 / len(sizes), float(known))
    if chance > TOLD:
        return {}
    accuracy = float(np.mean(list(own.values())))
    errors = [a * (1 - a) / int((test.site == k).sum()) for k, a in own.items()]
    error = math.sqrt(max(sum(errors) / len(own) ** 2, chance * (1 - chance) / len(test.site)))
    return {
        "score": max(0.0, (accuracy - chance) / (1 - chance)),
        "error": error / (1 - chance),
        "accuracy": accuracy,
        "chance": chance,
        "clients": own,
    }


def transfer(fit: Sample, test: Sample, random: np.random.Generator) -> dict[str, Any]:
    """How much better at a client a small model of its own samples is than one of the others'.

    Both are fitted on as many samples of each class and judged on the classes that both have, so
    that neither size nor the mix of labels makes the difference. Nothing where they hold too few.
    """
    gaps, errors = {}, []
    for k in np.unique(test.site).tolist():
        gain = gain_of_own(fit, test.take(test.site == k), random)
        if len(gain):
            gaps[int(k)] = float(gain.mean())
            errors.append(gain.var(ddof=1) / len(gain))
    if len(gaps) < 2:
        return {}
    spread = float(np.var(list(gaps.values()), ddof=1)) / len(gaps)
    error = math.sqrt(max(spread, sum(errors) / len(gaps) ** 2))
    return {"gap": float(np.mean(list(gaps.values()))), "error": error, "clients": gaps}


def gain_of_own(fit: Sample, test: Sample, random: np.random.Generator) -> Floats:
    """By how much more often the client's own model is right, for each of its test samples."""
    site = test.site[0]
    strata, sides = np.unique(fit.stratum), (fit.site == site, fit.site != site)
    held = [[np.flatnonzero(side & (fit.stratum == s)) for s in strata] for side in sides]
    most = max(1, OWN_MOST // len(strata))
    counts = [min(len(own), len(other), most) for own, other in zip(*held, strict=True)]
    test = test.take(np.isin(test.stratum, strata[np.array(counts) > 0]))
    if sum(counts) < OWN or len(test.site) < TESTS or sum(1 for n in counts if n) < 2:
        return np.zeros(0)
    right = np.zeros((2, len(test.site)))
    for _ in range(DRAWS):
        for place, side in enumerate(held):
            drawn = [random.permutation(rows)[:n] for rows, n in zip(side, counts, strict=True)]
            right[place] += hits(fit.take(np.concatenate(drawn)), test) / DRAWS
    return np.asarray(right[0] - right[1])


def hits(fit: Sample, test: Sample) -> Floats:
    """Which of the test samples a small model that is fitted on the others classifies right."""
    named = guesses(fit.x, fit.stratum, np.ones(len(fit.site)), test.x)
    right: Floats = (named == test.stratum).astype(np.float64)
    return right
