"""Features: a few numbers of one size for each sample, whatever samples are, and small models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedkf.data.federated import FederatedData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COMPONENTS = 48
"""Directions in which the inputs vary most, where they have more."""
BANDS = 8
WAVES = 400
WIDTH = 0.3
RIDGE = 0.1


@dataclass(frozen=True)
class Sample:
    """Some clients' samples as standardised features, with the client and the class of each."""

    x: Floats
    site: Ints
    stratum: Ints

    def take(self, chosen: NDArray[Any]) -> Sample:
        return Sample(self.x[chosen], self.site[chosen], self.stratum[chosen])

    def __add__(self, other: Sample) -> Sample:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sample(*(np.concatenate(pair) for pair in pairs))


def features(
    data: FederatedData, sites: Sequence[int], most: int, random: np.random.Generator
) -> tuple[Sample, Sample]:
    """Training and test samples of these clients, at most so many of both in equal shares."""
    sides = zip(
        (data.images, data.test_images),
        (data.offsets, data.test_offsets),
        data.strata(),
        strict=True,
    )
    found = []
    for inputs, offsets, strata in sides:
        each = max(2, most // len(sites))
        rows = [
            offsets[k] + np.sort(random.permutation(int(offsets[k + 1] - offsets[k]))[:each])
            for k in sites
        ]
        chosen = np.concatenate(rows).astype(np.int64)
        owners = np.repeat(np.arange(len(sites)), [len(own) for own in rows])
        found.append((inputs[chosen.tolist()].numpy(), owners, strata[chosen]))
    project = components(flat(found[0][0]), random)
    made = [
        Sample(np.concatenate([project(flat(x)), texture(x)], axis=1), owners, strata)
        for x, owners, strata in found
    ]
    mean, std = made[0].x.mean(0), made[0].x.std(0)
    std = np.where(std > 1e-6, std, 1.0)
    fit, test = (replace(one, x=(one.x - mean) / std) for one in made)
    return fit, test


def flat(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.reshape(len(x), -1).astype(np.float32, copy=False)


def components(rows: NDArray[np.float32], random: np.random.Generator) -> Callable[..., Floats]:
    """A function to the coordinates along the directions in which `rows` vary most."""
    if rows.shape[1] <= COMPONENTS:
        return lambda x: x.astype(np.float64)
    mean = rows.mean(0)
    centred = rows - mean
    basis = random.standard_normal((rows.shape[1], 2 * COMPONENTS)).astype(np.float32)
    for _ in range(2):  # subspace iteration: a whole covariance of long inputs would take minutes
        basis = orthonormal(centred.T @ orthonormal(centred @ basis))
    inside = (centred @ basis).astype(np.float64)
    _, turn = np.linalg.eigh(inside.T @ inside)
    basis = basis @ turn[:, ::-1][:, :COMPONENTS].astype(np.float32)
    return lambda x: ((x - mean) @ basis).astype(np.float64)


def orthonormal(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns of length 1, at right angles, that span what these do."""
    lengths, turn = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    kept = (lengths > 1e-7 * lengths[-1:]) & (lengths > 0)
    made: NDArray[np.float32] = columns @ (turn[:, kept] / np.sqrt(lengths[kept])).astype(
        np.float32
    )
    return made


def texture(x: NDArray[Any]) -> Floats:
    """What hardly shows in the largest directions: level, spread and roughness of each channel
    and, of a signal, how loud it is in each band."""
    if x.ndim < 3 or x.shape[-1] < 2:
        return np.zeros((len(x), 0))
    steps = np.abs(np.diff(x, axis=-1))
    values, steps = (part.reshape(*x.shape[:2], -1) for part in (x, steps))
    found = [values.mean(2), values.std(2), steps.mean(2)]
    if x.ndim == 3 and x.shape[2] >= 2 * BANDS:
        loud = np.abs(np.fft.rfft(x, axis=2))[:, :, 1:]
        found += [np.log(1e-3 + part.mean(2)) for part in np.array_split(loud, BANDS, axis=2)]
    return np.concatenate(found, axis=1).astype(np.float64)


def lift(width: int, random: np.random.Generator) -> Callable[[Sample], Sample]:
    """Features in which a linear model is nearly a kernel's: themselves and random waves of them
    (Rahimi and Recht)."""
    directions = random.standard_normal((width, WAVES)) * np.sqrt(WIDTH / width)
    phases = random.uniform(0, 2 * np.pi, WAVES)

    def lifted(sample: Sample) -> Sample:
        waves = np.cos(sample.x @ directions + phases) * np.sqrt(2 / WAVES)
        constant = np.ones((len(waves), 1))
        linear = sample.x / np.sqrt(width)
        return replace(sample, x=np.concatenate([linear, waves, constant], axis=1))

    return lifted


def guesses(x: Floats, classes: Ints, weights: Floats, unseen: Floats) -> Ints:
    """The classes of unseen rows by ridge regression onto indicators, each row with its weight."""
    names, places = np.unique(classes, return_inverse=True)
    goals = np.eye(len(names))[places] - 1 / len(names)
    root = np.sqrt(weights)[:, None]
    x, goals = x * root, goals * root
    if len(x) < x.shape[1]:
        solved = x.T @ np.linalg.solve(x @ x.T + RIDGE * np.eye(len(x)), goals)
    else:
        solved = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ goals)
    found: Ints = names[(unseen @ solved).argmax(1)]
    return found
