"""How samples are normalised, those of clients and generated ones alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def normalise(x: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """(x − mean) / std, one number for all or one for each entry of a sample's first dimension."""
    column = (1, -1, *(1 for _ in x.shape[2:]))
    centre, scale = (torch.tensor([*v], dtype=x.dtype, device=x.device) for v in (mean, std))
    return (x - centre.view(column)) / scale.view(column)
