"""What was tried on FedKF+ and is not part of it, each as an algorithm of its own.

    PYTHONPATH=benchmarks fedkf sweep benchmarks/suites/attempts-letters.yaml --out runs/attempts

They are kept so that whoever has the same idea can see what it brought (results/README.md), and
change it. None sends more than FedKF+ does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fedkf.algorithms.fedkf_plus import FedKFPlus
from fedkf.core.algorithm import State, option
from fedkf.core.arithmetic import combine, zeros_like
from fedkf.core.payload import Payload, Weights
from fedkf.core.samples import Sampling
from fedkf.distillation.pool import Pool, drawn, outputs_of
from fedkf.models.lenet import LeNet5

if TYPE_CHECKING:
    from torch import nn

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class GrowingGamma(FedKFPlus):
    """γ and β grow with the teacher: times its accuracy on the client's own training samples."""

    name: ClassVar[str] = "growing-gamma"
    continues: ClassVar[bool] = True

    def local_update(self, client: Client, down: Payload) -> Payload:
        if self._plain(client.round):
            return super().local_update(client, down)
        teacher = client.teacher(down["teacher" if "teacher" in down else "weights"])
        right = outputs_of(teacher, client.data.images).argmax(1) == client.data.labels
        quality = 2 * float(right.double().mean())
        grown = type(self)(
            **{**{k: getattr(self, k) for k in self.options()}, "gamma": self.gamma * quality}
        )
        return FedKFPlus.local_update(grown, client, down)


@dataclass(frozen=True)
class Heeded(FedKFPlus):
    """Who is badly served by the teacher heeds it less: γ_k and β_k times min(1, c q_k).

    q_k is the teacher's accuracy on the client's own training samples, which stays there.
    """

    name: ClassVar[str] = "heeded"
    continues: ClassVar[bool] = True
    c: float = option(2.0, "c, times the teacher's accuracy", above=0)
    both: bool = option(True, "the not-true loss, too, and not the pool's alone")
    photographic: bool = option(False, "crops, mirrored and patched, in the place of warps")

    def local_update(self, client: Client, down: Payload) -> Payload:
        if self._plain(client.round):
            return super().local_update(client, down)
        teacher = client.teacher(down["teacher" if "teacher" in down else "weights"])
        right = outputs_of(teacher, client.data.images).argmax(1) == client.data.labels
        heed = min(1.0, self.c * float(right.double().mean()))
        now = {k: getattr(self, k) for k in self.options()} | {"gamma": self.gamma * heed}
        if self.both:
            now["beta"] = self.beta * heed
        return FedKFPlus.local_update(type(self)(**now), client, down)

    def make_pool(self, client: Client, teacher: nn.Module) -> Pool:
        if not self.photographic:
            return super().make_pool(client, teacher)
        random, count = client.random("pool"), client.task.part(Sampling).count(client.task)
        size = min(self.pool, client.planned * count)
        warped = round(self.warped * size)
        parts = [cuttings(client, warped)]
        if warped < size:
            samples = self.samples(client, Payload())
            self.train(client, samples, teacher)
            parts.append(drawn(samples, size - warped))
            client.state = samples.state()
        return Pool(parts, teacher, count, random)


def cuttings(client: Client, count: int) -> Tensor:
    """Own photographs, cropped, mirrored, in other light, with a patch of another one of them."""
    random, images = client.random("cuttings"), client.data.images
    n = len(images)

    def some() -> Tensor:
        x = images[torch.randint(n, (count,), generator=random)]
        scale = 0.7 + 0.3 * torch.rand(count, generator=random)
        flip = torch.randint(2, (count,), generator=random) * 2 - 1
        maps = torch.zeros(count, 2, 3)
        maps[:, 0, 0], maps[:, 1, 1] = scale * flip, scale
        maps[:, :, 2] = (torch.rand(count, 2, generator=random) * 2 - 1) * (1 - scale)[:, None]
        x = F.grid_sample(
            x, F.affine_grid(maps, list(x.shape), align_corners=False), align_corners=False
        )
        light = 1 + 0.2 * torch.randn(count, x.shape[1], 1, 1, generator=random)
        return x * light

    x, other = some(), some()
    return patched(x, other, random).to(memory_format=client.task.layout)


def patched(x: Tensor, other: Tensor, random: torch.Generator) -> Tensor:
    """Images with a square of others in them."""
    count, _, height, width = x.shape
    side = torch.rand(count, 1, 1, generator=random) * 0.6 + 0.2
    top, left = (torch.rand(count, 1, 1, generator=random) * (1 - side) for _ in range(2))
    rows = torch.arange(height).view(1, -1, 1) / height
    columns = torch.arange(width).view(1, 1, -1) / width
    patch = (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)
    return torch.where(patch[:, None], other, x)


@dataclass(frozen=True)
class Tried(FedKFPlus):
    """What the present recipe was chosen among, each with a setting of its own."""

    name: ClassVar[str] = "tried"
    continues: ClassVar[bool] = True
    kind: str = option(
        "overlay",
        "two own images over each other, one alone, or one with a patch of another",
        choices=("overlay", "single", "patch"),
    )
    strength: float = option(0.35, "of the maps that warp them", at_least=0)
    corrected: bool = option(False, "where the teacher misses a warped image's class, it is told")
    start_oca: bool = option(False, "clients begin from the teacher, the one model that comes down")
    server_momentum: float = option(0.0, "of the active clients' mean", at_least=0, at_most=1)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        return Payload(weights=down["teacher"]) if self.start_oca and "teacher" in down else down

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        old, new = state["weights"], super().aggregate(server, state, uploads)
        if not self.server_momentum:
            return new
        velocity = state["velocity"] if "velocity" in state else zeros_like(old)
        ends = velocity, new["weights"], old
        velocity = combine(lambda v, n, w: self.server_momentum * v + n - w, *ends)
        return new.replace(weights=combine(lambda w, v: w + v, old, velocity), velocity=velocity)

    def make_pool(self, client: Client, teacher: nn.Module) -> Pool:
        if len(client.task.shape) != 3:
            return super().make_pool(client, teacher)
        random, count = client.random("pool"), client.task.part(Sampling).count(client.task)
        size = min(self.pool, client.planned * count)
        warped, parts = round(self.warped * size), list[Tensor]()
        if warped:
            images, labels = self.warp(client, warped)
            parts.append(images)
        if warped < size:
            samples = self.samples(client, Payload())
            self.train(client, samples, teacher)
            parts.append(drawn(samples, size - warped))
            client.state = samples.state()
        pool = Pool(parts, teacher, count, random)
        if warped and self.corrected:
            order = torch.randperm(size, generator=client.random("pool"))
            own = order < warped
            pool.outputs[own] = told(pool.outputs[own], *(y[order[own]] for y in labels))
        return pool

    def warp(self, client: Client, count: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Own images, changed, and the classes of the two that each was made of."""
        random, data, task = client.random("own"), client.data, client.task
        mean, std = (torch.tensor([*v]).view(1, -1, 1, 1) for v in (task.mean, task.std))

        def some() -> tuple[Tensor, Tensor]:
            index = torch.randint(len(data.images), (count,), generator=random)
            noise = torch.randn((count, 2, 3), generator=random)
            maps = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]) + self.strength * noise
            x = data.images[index] * std + mean
            grid = F.affine_grid(maps, list(x.shape), align_corners=False)
            return F.grid_sample(x, grid, align_corners=False), data.labels[index]

        x, first = some()
        second = first
        if self.kind != "single":
            other, second = some()
            laid = torch.maximum(x, other)
            x = laid if self.kind == "overlay" else patched(x, other, random)
        return ((x - mean) / std).to(memory_format=task.layout), (first, second)


def told(outputs: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Where the likeliest class is neither, it changes places with the likelier of the two."""
    rows, best = torch.arange(len(first)), outputs.argmax(1)
    own = torch.where(outputs[rows, first] >= outputs[rows, second], first, second)
    own = torch.where((best == first) | (best == second), best, own)
    said = outputs.clone()
    said[rows, own], said[rows, best] = outputs[rows, best], outputs[rows, own]
    return said


@dataclass(frozen=True)
class LedTeacher(FedKFPlus):
    """T1's mean lags behind, so the teacher is where it will be: OCA and so many of its moves."""

    name: ClassVar[str] = "led-teacher"
    continues: ClassVar[bool] = True
    lead: float = option(2.0, "moves of OCA that the teacher is ahead", at_least=0)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if "teacher" not in down or "overall" not in state:
            return down
        ahead, before = dict(down["teacher"]), state["overall"]
        for name in server.task.parameters:
            ahead[name] = ahead[name] + self.lead * (ahead[name] - before[name])
        return down.replace(teacher=ahead)


@dataclass(frozen=True)
class Steady(FedKFPlus):
    """A moving average over rounds, of T1's mean as the teacher or of ACA as what is read."""

    name: ClassVar[str] = "steady"
    continues: ClassVar[bool] = True
    share: float = option(0.5, "how much of the average of before is kept", at_least=0, at_most=1)
    of: str = option("oca", "what is averaged", choices=("oca", "aca"))

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if self.of == "oca" and "teacher" in down and "steady" in state:
            down = down.replace(teacher=state["steady"])
        return down

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = super().aggregate(server, state, uploads)
        latest = server.overall if self.of == "oca" else new["weights"]
        if latest is None:
            return new
        if "steady" not in state:
            return new.replace(steady=latest)
        ends = state["steady"], latest
        kept = combine(lambda old, now: self.share * old + (1 - self.share) * now, *ends)
        return new.replace(steady=kept)

    def model(self, state: State) -> Weights:
        return state["steady"] if self.of == "aca" and "steady" in state else state["weights"]


@dataclass(frozen=True)
class Blended(FedKFPlus):
    """The teacher is a blend of T1's mean, which is stale, and of ACA, which is fresh."""

    name: ClassVar[str] = "blended"
    continues: ClassVar[bool] = True
    fresh: float = option(0.5, "the share of ACA", at_least=0, at_most=1)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if "teacher" not in down:
            return down
        ends = down["teacher"], down["weights"]
        return down.replace(teacher=combine(lambda old, new: old + self.fresh * (new - old), *ends))


class EvenLeNet5(LeNet5):
    """LeNet-5 whose features have one length before the head sees them."""

    def classify(self, features: Tensor) -> Tensor:
        return super().classify(8 * F.normalize(features, dim=1))
