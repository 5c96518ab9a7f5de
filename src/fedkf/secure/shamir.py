"""Shamir's secret sharing: any `threshold` of the shares give the secret, fewer give nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PRIME = 2**256 + 297
"""The field; every secret of 32 bytes is one of its elements."""
WIDTH = 33
"""Bytes of a share."""


def split(coefficients: Sequence[int], points: Sequence[int]) -> list[bytes]:
    """The shares at these points of the polynomial whose first coefficient is the secret.

    The other coefficients must be random; there are as many coefficients as shares are needed.
    """
    shares = []
    for x in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % PRIME
        shares.append(value.to_bytes(WIDTH, "big"))
    return shares


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret, of 32 bytes, from shares by their points.

    Raises OverflowError where the shares do not belong together and so give no such secret.

    >>> five = split([7, 11], [1, 2, 3])
    >>> combine({1: five[0], 3: five[2]})[-1]
    7
    """
    secret = 0
    for x, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        secret += int.from_bytes(share, "big") * above * pow(below, -1, PRIME)
    return (secret % PRIME).to_bytes(32, "big")
