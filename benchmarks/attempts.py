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
from fedkf.distillation.pool import Pool, outputs_of
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
