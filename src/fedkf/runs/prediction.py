"""Classes of images, by a run's trained model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedkf.core.errors import UserError
from fedkf.data.folder import open_image
from fedkf.runs.comparison import trained_alone
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, load


def shared_model(
    run: Path, readout: str, purpose: str, model: Callable[..., nn.Module] | None = None
) -> Trained:
    """The model of a run that has one for all clients, or a sentence; `purpose` is a verb in it."""
    if trained_alone(RunFolder(run)):
        raise UserError(
            f"{run} trained every client alone, so there is no shared model to {purpose}"
        )
    return load(run, readout, model)


def classify(trained: Trained, images: Sequence[Path]) -> list[dict[str, Any]]:
    """Each image file's likeliest class and its probability."""
    if len(trained.shape) != 3:
        raise UserError(f"the model takes inputs of shape {list(trained.shape)}, not images")
    rows = []
    for path in images:
        pixels = open_image(path, None)
        if isinstance(pixels, str):
            raise UserError(f"{path} is not a readable image: {pixels}")
        x = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None].float() / 255
        ((name, probability),) = trained.predict(with_channels(x, trained.shape[0]))
        rows.append({"image": str(path), "class": name, "probability": probability})
    return rows


def with_channels(images: torch.Tensor, channels: int) -> torch.Tensor:
    """Grey images for a model of colours, and the other way round."""
    if images.shape[1] == channels:
        return images
    return images.mean(1, keepdim=True).expand(-1, channels, -1, -1)
