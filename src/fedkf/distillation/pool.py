"""Pool: inputs with the teacher's word on them, made once and served batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from fedkf.core.objects import import_object
from fedkf.distillation import SAMPLES, samples_for

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.samples import Samples

CHUNK = 256
"""Inputs per pass of the teacher, so that a large pool needs no large memory."""


def outputs_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """What a fixed model says of any number of inputs."""
    with torch.no_grad():
        return torch.cat([model(part) for part in inputs.split(CHUNK)])


def warps(client: Client) -> Samples:
    """The client's own samples, changed and mixed, whatever kind of input they are."""
    name = samples_for("warp", client.task.shape)
    source: Samples = import_object(SAMPLES.get(name, name), "generator.samples")(client)
    return source


def drawn(samples: Samples, count: int) -> Tensor:
    """So many inputs, without gradients."""
    samples.count = count
    with torch.no_grad():
        parts = [samples.draw()]
        while sum(map(len, parts)) < count:  # a source of the user's own may have its own size
            parts.append(samples.draw())
    return torch.cat(parts)[:count]


class Pool:
    """Inputs in random order and the teacher's outputs for them.

    A step of the model takes the batch with its number; after the last one they begin anew.
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        teacher: nn.Module,
        batch: int,
        random: torch.Generator,
    ) -> None:
        together = torch.cat([*inputs])
        order = torch.randperm(len(together), generator=random).to(together.device)
        self.inputs = together[order]
        self.outputs = outputs_of(teacher, self.inputs)
        self.batch = min(batch, len(together))
        self.batches = len(together) // self.batch

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """The inputs of a step and the teacher's word on them."""
        start = step % self.batches * self.batch
        span = slice(start, start + self.batch)
        return self.inputs[span], self.outputs[span]
