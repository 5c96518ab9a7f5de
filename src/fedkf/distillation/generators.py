"""Generated samples: from a generator that a client trains, or from one that came down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.optimizers import memory_of, remember
from fedkf.core.payload import Payload, Weights
from fedkf.core.samples import Samples
from fedkf.core.task import copy_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.task import Task


@dataclass
class Generation:
    """The part of a task that says how generators are built, begin and learn.

    With `every` above 1 a generator learns from every so many-th batch only.
    """

    make: Callable[[], nn.Module]
    noise: int = 100
    lr: float = 0.001
    every: int = 1
    start: Weights | None = None

    def initial(self, task: Task) -> Weights:
        """θ, the generators' common start (Algorithm 1, line 2), drawn from the run's seed."""
        if self.start is None:
            self.start = task.initial("generator", self.make)
        return self.start


class GeneratedSamples(Samples):
    """What the task's generator, with these weights, makes of noise."""

    def __init__(self, client: Client, weights: Weights) -> None:
        super().__init__(client)
        settings = client.task.part(Generation)
        # Batches are normalised by their own statistics, whether it learns from them or not.
        self.generator = client.task.load("generator", weights, settings.make).train()
        self.random = client.random("generator noise")
        self.noise, self.device = settings.noise, client.task.device
        self.dtype = next(self.generator.parameters()).dtype

    def draw(self) -> Tensor:
        noise = torch.randn((self.count, self.noise), generator=self.random)
        samples: Tensor = self.generator(noise.to(self.device, self.dtype))
        return samples


class FrozenGenerator(GeneratedSamples):
    """Draws from a generator that came down and does not learn here."""

    continues: ClassVar[bool] = True  # batches are normalised by their own statistics
    private: ClassVar[bool] = True

    def draw(self) -> Tensor:
        with torch.no_grad():
            return super().draw()


class TrainedGenerator(GeneratedSamples):
    """The paper's source: a generator of the client's own, trained with Adam round after round."""

    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True

    def __init__(self, client: Client) -> None:
        settings, kept = client.task.part(Generation), client.state
        super().__init__(client, kept["generator"] if kept else settings.initial(client.task))
        parameters = self.generator.parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=settings.lr, fused=True)
        if kept:
            remember(self.optimizer, self.generator, kept["adam"])
        self.lr, self.every, self.drawn = settings.lr, settings.every, 0

    def draw(self) -> Tensor:
        to_learn = torch.is_grad_enabled()
        with torch.set_grad_enabled(to_learn and self.drawn % self.every == 0):
            samples = super().draw()
        self.drawn += to_learn
        return samples

    def learn(self, loss: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * self.haste
        # Only the generator: no gradient is formed for the weights of the models that judged it.
        loss.backward(inputs=list(self.generator.parameters()))
        self.optimizer.step()

    def state(self) -> Payload:
        adam = memory_of(self.optimizer, self.generator)
        return Payload(generator=copy_of(self.generator), adam=adam)

    def progress(self) -> Payload:
        return self.state().add("count", {"drawn": self.drawn})

    def resume(self, kept: Payload) -> None:
        self.generator.load_state_dict(kept["generator"])
        remember(self.optimizer, self.generator, kept["adam"])
        self.drawn = int(kept.number("count", "drawn"))
