"""FedDF (Lin et al., 2020): the clients' models together teach their average, on proxy data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.core.batches import batch_indices
from fedkf.core.task import Training, copy_of

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.payload import Weights
    from fedkf.core.server import Server, Upload
    from fedkf.core.task import Task


@dataclass(frozen=True)
class FedDF(Algorithm):
    """From w = Σ n_k w_k / Σ n_k, down KL(softmax(mean of the clients' logits) ‖ w)."""

    name: ClassVar[str] = "feddf"
    needs_proxy_data: ClassVar[bool] = True
    tiny: ClassVar[Mapping[str, Any]] = dict(server_steps=1)

    server_steps: int = option(1000, "steps of distillation a round; 0 gives FedAvg", at_least=0)
    server_batch: int = option(128, "proxy samples in a step", at_least=2)
    server_lr: float = option(0.001, "Adam's learning rate, which a cosine takes to 0", above=0)

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = super().aggregate(server, state, uploads)
        assert server.proxy is not None
        task = server.task
        inputs = server.proxy.to(task.device)
        inputs = inputs.to(memory_format=task.layout) if inputs.ndim == 4 else inputs
        with server.own_work("distillation") as random:
            taught = ensemble_outputs(task, [u["weights"] for u in uploads], inputs)
            return new.replace(weights=self.distil(task, new["weights"], inputs, taught, random))

    def distil(
        self, task: Task, start: Weights, inputs: Tensor, taught: Tensor, random: torch.Generator
    ) -> Weights:
        student = task.load("student", start).train()
        optimizer = torch.optim.Adam(student.parameters(), lr=self.server_lr)
        plan = Training(steps_per_epoch=self.server_steps, batch_size=self.server_batch)
        for step, index in enumerate(batch_indices(len(inputs), plan, random)):
            for group in optimizer.param_groups:
                group["lr"] = (
                    self.server_lr / 2 * (1 + math.cos(math.pi * step / self.server_steps))
                )
            optimizer.zero_grad(set_to_none=True)
            task.objective.distil(taught[index], student(inputs[index])).backward()
            optimizer.step()
        return copy_of(student)


def ensemble_outputs(task: Task, models: Sequence[Weights], inputs: Tensor) -> Tensor:
    """The mean of the models' outputs; every model counts alike."""
    total = torch.zeros(len(inputs), task.outputs, device=inputs.device)
    with torch.no_grad():
        for weights in models:
            teacher = task.load("teacher", weights).eval()
            total += torch.cat([teacher(x) for x in inputs.split(256)])
    return total / len(models)
