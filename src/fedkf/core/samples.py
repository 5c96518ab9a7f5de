"""Samples: where the inputs of distillation come from (T2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedkf.core.payload import Payload, Weights
from fedkf.core.task import copy_of

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client


class Samples:
    """A source of inputs on which a teacher is distilled into a student.

    A source that learns returns inputs that require gradients, and takes a loss on them in `learn`.
    What it must remember until the client is active again goes into `state`. A batch serves
    `reuse` steps of the model before the next one is drawn.
    """

    reuse = 1

    def __init__(self, client: Client) -> None:
        task = client.task
        self.count = task.generated_batch or task.training.batch_size
        self.reuse = task.reuse

    def draw(self) -> Tensor:
        """A batch of inputs, normalised as the data is."""
        raise NotImplementedError

    def learn(self, loss: Tensor) -> None:
        """One step down a loss computed on the last batch drawn; nothing for sources that don't."""

    def state(self) -> Payload | None:
        """What to keep for this client; private, it never leaves the client."""
        return None


class TrainedGenerator(Samples):
    """The paper's source: a generator of the client's own, trained with Adam round after round.

    With `generator.every` above 1 it learns from every so many-th batch only.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        task, kept = client.task, client.state
        weights = kept["generator"] if kept else task.initial_generator
        self.generator = task.load("generator", weights).train()
        self.parameters = dict(self.generator.named_parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=task.generator_lr, fused=True
        )
        if kept:
            self._restore(kept["adam"])
        self.random = client.random("generator noise")
        self.size = (self.count, task.noise)
        self.every, self.drawn = task.generator_every, 0
        self.device, self.dtype = task.device, next(iter(self.parameters.values())).dtype

    def draw(self) -> Tensor:
        noise = torch.randn(self.size, generator=self.random)
        to_learn = torch.is_grad_enabled()
        with torch.set_grad_enabled(to_learn and self.drawn % self.every == 0):
            samples: Tensor = self.generator(noise.to(self.device, self.dtype))
        self.drawn += to_learn
        return samples

    def learn(self, loss: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        # Only the generator: no gradient is formed for the weights of the models that judged it.
        loss.backward(inputs=list(self.parameters.values()))
        self.optimizer.step()

    def state(self) -> Payload:
        adam: Weights = {}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                adam[f"{key}:{name}"] = value.detach().cpu()
        return Payload(generator=copy_of(self.generator), adam=adam)

    def _restore(self, adam: Weights) -> None:
        for key, value in adam.items():
            field, _, name = key.partition(":")
            parameter = self.parameters[name]
            like = value.to(parameter.device) if field == "step" else parameter
            place = torch.empty_like(like)
            self.optimizer.state[parameter][field] = place.copy_(value)
