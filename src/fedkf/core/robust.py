"""Robust means: what stands in for the weighted mean when some of the models may be lies.

All count models alike, since a size can be a lie, too. `LIARS` is the share of lies that they are
made for. Integer tensors are the middle ones, coordinate by coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.payload import Weights

Centre = Callable[[Sequence["Weights"]], "Weights"]
"""One model that stands for several."""
LIARS = 0.3
STEPS, CLOSE = 300, 1e-8
"""Of Weiszfeld's iteration: how many at most, and how near, next to the median, is there."""


def median(models: Sequence[Weights]) -> Weights:
    """The median of every coordinate; of an even number the mean of the two in the middle.

    >>> import torch
    >>> median([{"w": torch.tensor([w])} for w in (1.0, 2.0, 1e9)])
    {'w': tensor([2.])}
    """
    return _by_coordinate(models, (len(models) - 1) // 2)


def trimmed(models: Sequence[Weights]) -> Weights:
    """The mean of every coordinate without its ⌈0.3 n⌉ smallest and as many largest values.

    At least one value is left, of an even number two.
    """
    return _by_coordinate(models, min(math.ceil(LIARS * len(models)), (len(models) - 1) // 2))


def krum(models: Sequence[Weights]) -> Weights:
    """The model that is nearest to its neighbours (Blanchard et al., 2017)."""
    return models[_by_krum(models)[0]]


def multikrum(models: Sequence[Weights]) -> Weights:
    """The mean of the n − f models that are nearest to their neighbours."""
    chosen = _by_krum(models)[: len(models) - _liars(len(models))]
    return _mean(models, [float(k in chosen) / len(chosen) for k in range(len(models))])


def geometric(models: Sequence[Weights]) -> Weights:
    """The point whose distances to all models have the smallest sum (Weiszfeld's iteration).

    The iterate is always a mean of the models, so the products of the models with each other are
    all that it needs.
    """
    products, count = _products(models), len(models)
    shares = torch.full((count,), 1 / count, dtype=torch.float64)
    for _ in range(STEPS):
        inner = products @ shares
        squares = products.diagonal() - 2 * inner + shares @ inner
        distances = squares.clamp_min(0).sqrt()
        scale = float(distances.median())  # lies may be at any distance
        if not scale:
            break
        nearness = 1 / distances.clamp_min(CLOSE * scale)
        before, shares = shares, nearness / nearness.sum()
        if float((shares - before) @ products @ (shares - before)) <= (CLOSE * scale) ** 2:
            break
    return _mean(models, shares.tolist())


CENTRES: Mapping[str, Centre] = {
    "median": median,
    "trimmed": trimmed,
    "krum": krum,
    "multikrum": multikrum,
    "geometric": geometric,
}


def _by_coordinate(models: Sequence[Weights], cut: int) -> Weights:
    """The mean of every coordinate without `cut` values at each end."""
    made: Weights = {}
    for name, first in models[0].items():
        ordered = torch.stack([model[name] for model in models]).sort(0).values
        if first.is_floating_point():
            kept = ordered[cut : len(models) - cut].double()
            made[name] = kept.mean(0).to(first.dtype)
        else:
            made[name] = ordered[(len(models) - 1) // 2]
    return made


def _mean(models: Sequence[Weights], shares: Sequence[float]) -> Weights:
    """The mean with these shares; models without one are not even looked at."""
    made = _by_coordinate(
        [{n: t for n, t in model.items() if not t.is_floating_point()} for model in models], 0
    )
    mean: Weights = {}
    for name, first in models[0].items():
        if not first.is_floating_point():
            mean[name] = made[name]
            continue
        total = torch.zeros(first.shape, dtype=torch.float64)
        for share, model in zip(shares, models, strict=True):
            if share:
                total.add_(model[name].double(), alpha=share)
        mean[name] = total.to(first.dtype)
    return mean


def _liars(count: int) -> int:
    """f, how many lies Krum is made for; it asks for 2f + 3 models at least."""
    return max(0, min(math.ceil(LIARS * count), (count - 3) // 2))


def _by_krum(models: Sequence[Weights]) -> list[int]:
    """The models by the sum of squared distances to their n − f − 2 nearest neighbours."""
    count, products = len(models), _products(models)
    squares = products.diagonal()
    apart = squares[:, None] + squares[None, :] - 2 * products
    nearest = apart.fill_diagonal_(math.inf).sort(1).values
    near = min(count - 1, max(1, count - _liars(count) - 2))
    scores = nearest[:, :near].sum(1).tolist()
    return sorted(range(count), key=lambda k: (scores[k], k))


def _products(models: Sequence[Weights]) -> Tensor:
    """The inner products of the models as seen from their median.

    From there honest models are near, so that a huge lie takes no digits from their distances.
    """
    origin, count = median(models), len(models)
    total = torch.zeros(count, count, dtype=torch.float64)
    for name, middle in origin.items():
        if middle.is_floating_point():
            rows = torch.stack([(m[name].double() - middle.double()).flatten() for m in models])
            total += rows @ rows.T
    return total
