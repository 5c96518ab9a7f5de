"""The generator that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import load_file

from fedkf import models
from fedkf.core.errors import UserError
from fedkf.core.random import GlobalStream
from fedkf.distillation.generators import Generation

if TYPE_CHECKING:
    from torch import nn

    from fedkf.core.payload import Weights
    from fedkf.runs.schema import Config


def make_generation(
    config: Config, shape: tuple[int, ...], factory: Callable[..., nn.Module] | None = None
) -> Generation:
    """How the configuration's generators, or those of a factory given instead, are made."""
    settings = config.generator
    found = factory or models.find("generator.name", settings.name, models.GENERATORS)
    offered = {
        "shape": shape,
        "noise": settings.noise,
        "width": settings.width,
        "mean": config.data.mean,
        "std": config.data.std,
    }
    make = partial(models.build, "generator.name", found, offered)
    start = None if settings.start is None else read_generator(settings.start, make)
    return Generation(make, settings.noise, settings.lr, settings.every, start)


def read_generator(path: str, make: Callable[[], nn.Module]) -> Weights:
    """A generator's weights from a file, which must fit the configuration's generator."""
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"generator.start: {path} cannot be read: {error}") from None
    with GlobalStream(0, "cpu").active():
        shapes = {name: tensor.shape for name, tensor in make().state_dict().items()}
    for name in sorted(shapes.keys() | weights.keys()):
        have = list(weights[name].shape) if name in weights else "nothing"
        want = list(shapes[name]) if name in shapes else "nothing"
        if have != want:
            raise UserError(
                f"generator.start: {path} has {have} for {name!r}, where the generator has {want}"
            )
    return weights
