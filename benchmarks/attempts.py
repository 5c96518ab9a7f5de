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
from torch.nn import functional as F

from fedkf.algorithms.fedkf_plus import FedKFPlus
from fedkf.core.algorithm import State, option
from fedkf.core.arithmetic import towards
from fedkf.core.payload import Payload
from fedkf.core.samples import Sampling
from fedkf.distillation.pool import Pool, drawn, outputs_of
from fedkf.models.lenet import LeNet5

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client, Upload
    from fedkf.core.server import Server


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
    n, (height, width) = len(images), images.shape[2:]

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
    side = torch.rand(count, 1, 1, generator=random) * 0.6 + 0.2
    top, left = (torch.rand(count, 1, 1, generator=random) * (1 - side) for _ in range(2))
    rows = torch.arange(height).view(1, -1, 1) / height
    columns = torch.arange(width).view(1, 1, -1) / width
    patch = (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)
    mixed = torch.where(patch[:, None], other, x)
    return mixed.to(memory_format=client.task.layout)


@dataclass(frozen=True)
class LackingClasses(FedKFPlus):
    """The pool holds more of what the teacher takes for classes of which the client has few."""

    name: ClassVar[str] = "lacking-classes"
    continues: ClassVar[bool] = True

    def make_pool(self, client: Client, teacher: nn.Module) -> Pool:
        pool = super().make_pool(client, teacher)
        counts = client.data.labels.bincount(minlength=client.task.outputs).double()
        rarity = 1 / (1 + counts / counts.mean())
        chance = pool.outputs.softmax(1).double() @ rarity
        taken = torch.multinomial(
            chance.cpu(), len(chance), replacement=True, generator=client.random("lacking")
        )
        pool.inputs, pool.outputs = pool.inputs[taken], pool.outputs[taken]
        return pool


@dataclass(frozen=True)
class MovingTeacher(FedKFPlus):
    """The teacher is a moving average of T1's mean over rounds."""

    name: ClassVar[str] = "moving-teacher"
    continues: ClassVar[bool] = True
    memory: float = option(0.5, "share of the old teacher that stays", at_least=0, at_most=1)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if "teacher" in down and "moving" in state:
            moved = towards(state["moving"], down["teacher"], 1 - self.memory)
            return down.replace(teacher=moved)
        return down

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = super().aggregate(server, state, uploads)
        latest = server.overall or state["weights"]
        old = state["moving"] if "moving" in state else latest  # noqa: SIM401
        return new.replace(moving=towards(old, latest, 1 - self.memory))


@dataclass(frozen=True)
class BlendedTeacher(FedKFPlus):
    """The teacher lies between the active clients' mean and everybody's: fresh and stale slots."""

    name: ClassVar[str] = "blended-teacher"
    continues: ClassVar[bool] = True
    stale: float = option(0.5, "share of everybody's mean", at_least=0, at_most=1)

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if "teacher" not in down:
            return down
        return down.replace(teacher=towards(state["weights"], down["teacher"], self.stale))


class NormalisedLeNet5(LeNet5):
    """Features of length √120 before the head, so that no client's features outgrow the others'."""

    def features(self, x: Tensor) -> Tensor:
        features = super().features(x)
        return F.normalize(features) * features.shape[1] ** 0.5


def normalised(shape: tuple[int, ...], classes: int) -> nn.Module:
    return NormalisedLeNet5(shape, classes)
