"""Feature shift: every client sees the world a little differently, whatever its labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fedkf.core.errors import UserError


def shift(
    x: torch.Tensor,
    kinds: Sequence[str],
    strength: float,
    client: torch.Generator,
    noise: torch.Generator,
) -> torch.Tensor:
    """One client's samples, shifted by amounts drawn for this client.

    At strength 1 images are rotated by up to ±90 degrees, get noise of a standard deviation of up
    to 0.5, and lose up to all of their contrast. Images stay in [0, 1].
    """
    image = x.ndim == 4
    for kind in kinds:
        amount = 2 * torch.rand((), generator=client).item() - 1
        if kind == "rotate":
            if not image:
                raise UserError("data.shift: rotate needs images; noise and contrast take any data")
            x = rotate(x, amount * strength * math.pi / 2)
        elif kind == "noise":
            x = x + 0.5 * strength * abs(amount) * torch.randn(x.shape, generator=noise)
        else:
            middle = 0.5 if image else 0.0
            x = middle + (x - middle) * (1 - strength * abs(amount))
        if image:
            x = x.clamp(0, 1)
    return x


def rotate(images: torch.Tensor, angle: float) -> torch.Tensor:
    """Rotate about the centre; what comes in from outside is black."""
    cos, sin = math.cos(angle), math.sin(angle)
    ratio = images.shape[2] / images.shape[3]
    matrix = torch.tensor([[cos, -sin * ratio, 0.0], [sin / ratio, cos, 0.0]])
    grid = torch.nn.functional.affine_grid(
        matrix.expand(len(images), 2, 3), list(images.shape), align_corners=False
    )
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)
