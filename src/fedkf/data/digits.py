"""The data that ships with a dependency."""

from __future__ import annotations

import numpy as np

from fedkf.data.source import Source


def digits() -> Source:
    """1,797 handwritten digits, 8×8, that ship with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16.0).astype(np.float32)
    return Source(images[:, None], bunch.target.astype(np.int64), [str(k) for k in range(10)])
