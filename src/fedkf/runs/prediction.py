"""What a run's trained model tells of images, of rows of a table, of signals and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedkf.core.errors import UserError
from fedkf.data.federated import as_tensor
from fedkf.data.folder import open_image
from fedkf.data.npz import npz_inputs
from fedkf.data.source import Say, check_inputs
from fedkf.runs.comparison import trained_alone
from fedkf.runs.recipe import needed, recipe_of
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


def predictions(
    trained: Trained, files: Sequence[Path], say: Say = lambda text: None
) -> list[dict[str, Any]]:
    """What the model tells of each image, or of each row or sample of a file."""
    image = len(trained.shape) == 3
    found: list[dict[str, Any]] = []
    for path in files:
        if image and path.suffix != ".npz":
            found += answers(trained, image_of(trained, path), [{"image": str(path)}])
            continue
        if recipe_of(trained.about) is None:
            found += of_array(trained, path)
            continue
        recipe = needed(trained.about, path)
        rows = recipe.rows(path, say)
        where = [
            {"file": file, rows.counted: place}
            for file, place in zip(rows.files, rows.places, strict=True)
        ]
        x = recipe.filled(rows, trained.about["mean"] or (0.0,))
        found += answers(trained, x, where)
    return found


def answers(
    trained: Trained, x: torch.Tensor, where: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A class and its probability for each sample, or the number of another task."""
    if tuple(x.shape[1:]) != trained.shape and len(trained.shape) != 3:
        shape, wanted = list(x.shape[1:]), list(trained.shape)
        raise UserError(f"samples have inputs of shape {shape}; the model takes {wanted}")
    if not trained.class_names:
        values = trained.values(x).reshape(len(x)).tolist()
        return [{**place, "value": v} for place, v in zip(where, values, strict=True)]
    pairs = zip(where, trained.predict(x), strict=True)
    return [{**place, "class": name, "probability": p} for place, (name, p) in pairs]


def of_array(trained: Trained, path: Path) -> list[dict[str, Any]]:
    """What the model tells of the samples of an .npz file."""
    if path.suffix != ".npz":
        needed(trained.about, path)
    try:
        inputs = npz_inputs(str(path))
    except UserError as error:
        raise UserError(str(error).removeprefix("data.path: ")) from None
    inputs = check_inputs(inputs, lambda reason: UserError(f"{path}: {reason}"))
    x = as_tensor(inputs)
    if len(trained.shape) == 3 and x.ndim == 4:
        x = with_channels(x, trained.shape[0])
    where = [{"file": path.name, "sample": k} for k in range(len(x))]
    return answers(trained, x, where)


def image_of(trained: Trained, path: Path) -> torch.Tensor:
    """An image file as the model takes it."""
    pixels = open_image(path, None)
    if isinstance(pixels, str):
        raise UserError(f"{path} is not a readable image: {pixels}")
    x = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None].float() / 255
    return with_channels(x, trained.shape[0])


def with_channels(images: torch.Tensor, channels: int) -> torch.Tensor:
    """Grey images for a model of colours, and the other way round."""
    if images.shape[1] == channels:
        return images
    return images.mean(1, keepdim=True).expand(-1, channels, -1, -1)
