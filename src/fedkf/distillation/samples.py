"""Samples that cost next to nothing: no generator, no pass back through the teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional as F

from fedkf.core.errors import UserError
from fedkf.core.normalisation import normalise
from fedkf.core.samples import Samples

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client


class FreeSamples(Samples):
    """Draws from the client's own random stream and normalises as the data is."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.client, self.task = client, client.task
        self.random = client.random("samples")
        if len(self.task.shape) != 3 and not isinstance(self, Noise):
            raise UserError("generator.samples: field makes images; noise and warp make any inputs")

    def draw(self) -> Tensor:
        x = self.make().to(self.task.device)
        if x.ndim != 4:
            return x
        return normalise(x, self.task.mean, self.task.std).to(memory_format=self.task.layout)

    def make(self) -> Tensor:
        """Images in [0, 1], or other inputs as they are."""
        raise NotImplementedError


class Noise(FreeSamples):
    """Uniform noise; for inputs that are no images, normal noise."""

    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True

    def make(self) -> Tensor:
        size = (self.count, *self.task.shape)
        if len(size) == 4:
            return torch.rand(size, generator=self.random)
        return torch.randn(size, generator=self.random)


class Field(FreeSamples):
    """Smooth random fields: coarse noise, enlarged, with the contrast of drawings."""

    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True
    coarseness = 4

    def make(self) -> Tensor:
        channels, height, width = self.task.shape
        coarse = (-(-height // self.coarseness), -(-width // self.coarseness))
        noise = torch.randn((self.count, channels, *coarse), generator=self.random)
        smooth = F.interpolate(noise, size=(height, width), mode="bicubic", align_corners=False)
        return torch.sigmoid(3 * smooth)


class Drawing(FreeSamples):
    """Random blots and lines: smooth fields of several scales above or around a random height."""

    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True
    scales = (3, 5, 8, 12)

    def make(self) -> Tensor:
        channels, *sides = self.task.shape
        share = -(-self.count // len(self.scales))
        drawn = []
        for scale in self.scales:
            noise = torch.randn((share, channels, scale, scale), generator=self.random)
            smooth = F.interpolate(noise, size=sides, mode="bicubic", align_corners=False)
            height = torch.rand((share, 1, 1, 1), generator=self.random)
            blots = torch.sigmoid(6 * (smooth - 1.5 * height))
            lines = torch.sigmoid(12 * (0.15 + 0.35 * height - smooth.abs()))
            drawn.append(torch.cat([blots[: share // 2], lines[share // 2 :]]))
        return torch.cat(drawn)[: self.count]


class Warp(FreeSamples):
    """The client's own images under random affine maps, laid over each other in pairs."""

    continues: ClassVar[bool] = True
    strength = 0.35

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.mean, self.std = (
            torch.tensor([*values]).view(1, -1, 1, 1) for values in (self.task.mean, self.task.std)
        )
        self.identity = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

    def make(self) -> Tensor:
        return torch.maximum(self.warped(), self.warped())

    def warped(self) -> Tensor:
        images = self.client.data.images
        index = torch.randint(len(images), (self.count,), generator=self.random)
        x = images[index].cpu() * self.std + self.mean
        maps = self.identity + self.strength * torch.randn(
            (self.count, 2, 3), generator=self.random
        )
        grid = F.affine_grid(maps, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class Own(Samples):
    """The client's own inputs, as they are: for inputs that nothing can be made like, as texts."""

    continues: ClassVar[bool] = True

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.inputs, self.random = client.data.images, client.random("samples")

    def draw(self) -> Tensor:
        index = torch.randint(len(self.inputs), (self.count,), generator=self.random)
        return self.inputs[index.to(self.inputs.device)]
