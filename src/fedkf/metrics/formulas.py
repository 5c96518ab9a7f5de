"""Metrics of one site as formulas of counts and sums over its test samples.

Every formula takes arrays whose last axes are one statistic and whose first axes, if any, are many
of its kind, so that a thousand resampled ones are as cheap as one. NaN is what cannot be said.

Statistics, by name:

- `counts` [2]: samples tested, and those classified correctly.
- `confusion` [C, C]: samples of a class (row) that were taken for a class (column).
- `scores` [H, 2, BINS]: for each class against the rest (with two classes for the second only), how
  the log odds of the class are spread over other classes' samples and over its own.
- `calibration` [15, 2, 2]: for each fifteenth of confidence, over wrong and right answers: how many
  there are, and the sum of their confidences.
- `errors` [4, 4]: sums of products of (1, d, d², e²), d how far a target is from the mean of them,
  e how far a prediction is from its target.
- `pairs` [3, 3]: sums of products of (1, a, b), b how many pairs with a sample can be ordered by
  time, a how many of them the risks put into the right order (half where the risks are equal).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Statistic = NDArray[Any]
Formula = Callable[[Statistic], Numbers]

BINS = 768
"""Of log odds. They are finest at even odds, 0.0016 of probability wide, and widen outwards: at a
probability of 1 or 99 % they are 0.06 wide in log odds, 6 % of the smaller probability."""
REACH = 64.0
"""Log odds beyond this are in the last bin. Models that have learnt their samples by heart are sure
far beyond what a probability can show, and still have an order."""
COARSE = 0.01
"""An AUROC whose bins leave more than this open is told as such."""
KNEE = 0.5
"""Log odds from which on bins widen."""
SURE = 15
"""Bins of confidence, of equal width."""


def ratio(above: Any, below: Any) -> Numbers:
    """A quotient, NaN where it has none."""
    above, below = np.asarray(above, float), np.asarray(below, float)
    found: Numbers = np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
    return found


def mean_known(values: Numbers) -> Numbers:
    """The mean over the last axis of what is known."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(-1), known.sum(-1))


def accuracy(counts: Statistic) -> Numbers:
    """The share of samples that are classified correctly."""
    return ratio(counts[..., 1], counts[..., 0])


def sensitivity(confusion: Statistic) -> Numbers:
    """For each class, the share of its samples that are taken for it."""
    return ratio(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(-1))


def balanced_accuracy(confusion: Statistic) -> Numbers:
    """The mean sensitivity over the classes that the site has samples of.

    >>> float(balanced_accuracy(np.array([[90, 0], [5, 5]])))
    0.75
    """
    return mean_known(sensitivity(confusion))


def macro_f1(confusion: Statistic) -> Numbers:
    """The mean F1 over the classes that the site has samples of or that were answered."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return mean_known(ratio(2 * right, confusion.sum(-1) + confusion.sum(-2)))


def auroc_each(scores: Statistic) -> Numbers:
    """For each class, how often one of its samples scores above one of another class.

    Pairs within a bin count half, so that the number is exact up to half of their share.
    """
    others, own = scores[..., 0, :].astype(float), scores[..., 1, :].astype(float)
    below = others.cumsum(-1) - others / 2
    return ratio((own * below).sum(-1), own.sum(-1) * others.sum(-1))


def auroc(scores: Statistic) -> Numbers:
    """The mean area under the ROC curve over classes that are met with and without."""
    return mean_known(auroc_each(scores))


def auroc_resolution(scores: Statistic) -> Numbers:
    """By how much the AUROC of samples can lie off that of their bins, at most."""
    others, own = scores[..., 0, :].astype(float), scores[..., 1, :].astype(float)
    return mean_known(ratio((own * others).sum(-1) / 2, own.sum(-1) * others.sum(-1)))


def average_precision_each(scores: Statistic) -> Numbers:
    """For each class, the mean over its samples of the precision from their bin upwards."""
    others, own = scores[..., 0, ::-1].astype(float), scores[..., 1, ::-1].astype(float)
    precision = ratio(own.cumsum(-1), (own + others).cumsum(-1))
    found = ratio((own * np.nan_to_num(precision)).sum(-1), own.sum(-1))
    return np.where(others.sum(-1) > 0, found, np.nan)


def average_precision(scores: Statistic) -> Numbers:
    """The mean average precision over classes that are met with and without."""
    return mean_known(average_precision_each(scores))


def ece(calibration: Statistic) -> Numbers:
    """How far confidence is from accuracy, bin by bin, weighted by samples."""
    count, sure = calibration[..., 0], calibration[..., 1]
    gap = np.abs(count[..., 1] - sure.sum(-1)).sum(-1)
    return ratio(gap, count.sum((-1, -2)))


def rmse(errors: Statistic) -> Numbers:
    """The root of the mean squared error."""
    square = ratio(errors[..., 0, 3], errors[..., 0, 0])
    return np.sqrt(np.maximum(square, 0.0))


def r2(errors: Statistic) -> Numbers:
    """The share of the targets' variance that the predictions explain; below 0 they do harm."""
    count = errors[..., 0, 0]
    spread = errors[..., 0, 2] - ratio(errors[..., 0, 1] ** 2, count)
    return 1.0 - ratio(np.maximum(errors[..., 0, 3], 0.0), np.nan_to_num(spread))


def concordance(pairs: Statistic) -> Numbers:
    """The share of pairs that can be ordered by time which the risks put into the right order."""
    return np.clip(ratio(pairs[..., 0, 1], pairs[..., 0, 2]), 0.0, 1.0)
