"""A client's own signals and vectors, changed and mixed: what `warp` is for inputs of no image."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional as F

from fedkf.core.samples import Samples

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client


class VectorWarp(Samples):
    """Random mixtures of two of the client's own inputs, with noise in every entry.

    The noise is `jitter` times the spread that the entry has at this client: a column that is the
    same for all its rows stays so, and columns in other units get noise in those.
    """

    continues: ClassVar[bool] = True
    jitter = 0.1
    spread_over: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.inputs, self.device = client.data.images, client.task.device
        self.random = client.random("samples")
        self.spread = self.inputs.std(self.spread_over, correction=0, keepdim=True).cpu()

    def draw(self) -> Tensor:
        column = (self.count, *(1 for _ in self.inputs.shape[1:]))
        share = torch.rand(column, generator=self.random)
        mixed = torch.lerp(self.changed(), self.changed(), share)
        noise = torch.randn(mixed.shape, generator=self.random)
        return (mixed + self.jitter * self.spread * noise).to(self.device)

    def changed(self) -> Tensor:
        """Some of the client's inputs, each changed by itself; vectors are taken as they are."""
        index = torch.randint(len(self.inputs), (self.count,), generator=self.random)
        return self.inputs[index].cpu()


class SignalWarp(VectorWarp):
    """The client's own windows, faster here and slower there, moved in time, louder or softer.

    Two such windows are mixed as vectors are.
    """

    continues: ClassVar[bool] = True
    spread_over: ClassVar[tuple[int, ...]] = (0, 2)
    scaling = 0.3
    shift = 0.25
    """The most that a window is turned around, as a share of its length."""
    warp = 0.3
    """How much the speed varies: its logarithm's deviation at each of `knots`."""
    knots = 4

    def changed(self) -> Tensor:
        x = super().changed()
        channels, length = x.shape[1:]
        volume = torch.exp(
            self.scaling * torch.randn((self.count, channels, 1), generator=self.random)
        )
        return volume * around(x, self.times(length))

    def times(self, length: int) -> Tensor:
        """When each window is read, step by step: from anywhere, at a speed that varies."""
        speeds = torch.randn((self.count, 1, self.knots), generator=self.random)
        speeds = F.interpolate(self.warp * speeds, size=length, mode="linear", align_corners=True)
        passed = speeds.squeeze(1).exp().cumsum(1)
        passed = passed - passed[:, :1]
        passed = passed * ((length - 1) / passed[:, -1:].clamp_min(1e-9))  # 0 for a single step
        start = (2 * torch.rand((self.count, 1), generator=self.random) - 1) * self.shift * length
        return passed + start


def around(x: Tensor, times: Tensor) -> Tensor:
    """Signals N×C×T read at other times N×T, between their steps, the end joined to the start."""
    length = x.shape[2]
    before = times.floor()
    part = (times - before).unsqueeze(1)
    here = before.long().remainder(length).unsqueeze(1).expand_as(x)
    after = (here + 1).remainder(length)
    return torch.lerp(x.gather(2, here), x.gather(2, after), part)
