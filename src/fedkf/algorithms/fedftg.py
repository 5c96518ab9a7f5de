"""FedFTG (Zhang et al., 2022): the clients' models teach their average on samples made to be hard.

The generator is the server's. It is shown labels as the active clients hold them, which takes their
label counts, and seeks inputs on which the average is far from the models that know the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.core.optimizers import memory_of, remember
from fedkf.core.task import copy_of
from fedkf.distillation.generators import Generation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload, Weights
    from fedkf.core.server import Server, Upload
    from fedkf.core.task import Task
    from fedkf.models.labelled_generator import LabelledGenerator


@dataclass(frozen=True)
class FedFTG(Algorithm):
    """From w = Σ p_k w_k: min over w, max over θ of L_md − λ_cls L_cls − λ_dis L_dis."""

    name: ClassVar[str] = "fedftg"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    continues: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("label_counts",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "label_counts/count")
    uses_generator: ClassVar[bool] = True
    tiny: ClassVar[Mapping[str, Any]] = dict(server_steps=1, server_batch=2)

    server_steps: int = option(10, "I, batches of noise a round; 0 gives FedAvg", at_least=0)
    generator_steps: int = option(1, "I_g, steps of the generator on each", at_least=0)
    model_steps: int = option(5, "I_d, steps of the model on each", at_least=1)
    server_batch: int = option(64, "samples in a batch", at_least=2)
    server_lr: float = option(0.01, "learning rate of the model on the server", above=0)
    lambda_cls: float = option(1.0, "weight of the generator's classification loss", at_least=0)
    lambda_dis: float = option(1.0, "weight of the generator's diversity loss", at_least=0)

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        counts = client.data.labels.cpu().bincount(minlength=client.task.classes)
        return upload.add("label_counts", {"count": counts})

    def start(self, server: Server) -> State:
        task, settings = server.task, server.task.part(Generation)
        drawn = task.initial("labelled generator", partial(make_generator, task))
        start = {f"generator.{name}": tensor for name, tensor in settings.initial(task).items()}
        return super().start(server).add("generator", {**drawn, **start}).add("adam", {})

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new = super().aggregate(server, state, uploads)
        with server.own_work("fine-tuning") as random:
            return new.replace(**self.fine_tune(server.task, new, uploads, random))

    def fine_tune(
        self, task: Task, state: State, uploads: Sequence[Upload], random: torch.Generator
    ) -> dict[str, Weights]:
        """The average and the generator after their game; Adam goes on from the last round."""
        student, settings = task.load("student", state["weights"]).eval(), task.part(Generation)
        make = partial(make_generator, task)
        generator = task.load("labelled generator", state["generator"], make).train()
        learns = list(generator.parameters())
        adam = torch.optim.Adam(learns, lr=settings.lr)
        remember(adam, generator, state["adam"])
        sgd = torch.optim.SGD(student.parameters(), lr=self.server_lr)
        models = [task.load(f"teacher {k}", u["weights"]).eval() for k, u in enumerate(uploads)]
        ensemble = Ensemble(models, [u["label_counts"]["count"] for u in uploads])
        for _ in range(self.server_steps):
            labels = torch.multinomial(ensemble.counts, self.server_batch, True, generator=random)
            noise = torch.randn(self.server_batch, settings.noise, generator=random)
            y, z = labels.to(task.device), noise.to(task.device, learns[0].dtype)
            for _ in range(self.generator_steps):
                loss = self.generator_loss(ensemble, student, generator(z, y), z, y)
                adam.zero_grad(set_to_none=True)
                loss.backward(inputs=learns)
                adam.step()
            with torch.no_grad():
                x = generator(z, y)
            for _ in range(self.model_steps):
                sgd.zero_grad(set_to_none=True)
                ensemble.discrepancy(student(x), x, y).backward()
                sgd.step()
        return {
            "weights": copy_of(student),
            "generator": copy_of(generator),
            "adam": memory_of(adam, generator),
        }

    def generator_loss(
        self, ensemble: Ensemble, student: nn.Module, x: Tensor, z: Tensor, y: Tensor
    ) -> Tensor:
        """−L_md + λ_cls L_cls + λ_dis L_dis: hard, yet of its label, and not all the same."""
        hard = ensemble.discrepancy(student(x), x, y)
        return (
            -hard + self.lambda_cls * ensemble.loss(x, y) + self.lambda_dis * diversity_loss(x, z)
        )


def make_generator(task: Task) -> LabelledGenerator:
    from fedkf.models.labelled_generator import LabelledGenerator  # which needs torch at once

    settings = task.part(Generation)
    return LabelledGenerator(settings.make(), task.classes, settings.noise)


class Ensemble:
    """The clients' models, each counting for a label by its share α_k,y of the label's samples."""

    def __init__(self, models: Sequence[nn.Module], counts: Sequence[Tensor]) -> None:
        self.models = [model.requires_grad_(False) for model in models]
        self.counts = torch.stack([*counts]).double().sum(0)
        self.shares = torch.stack([*counts]).double() / self.counts.clamp_min(1)

    def weigh(self, y: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """Σ_k α_k,y times the model's part, sample by sample."""
        stacked = torch.stack([*parts])
        shares = self.shares.to(stacked.device, stacked.dtype)[:, y]
        return (shares.view(*shares.shape, *[1] * (stacked.ndim - 2)) * stacked).sum(0)

    def discrepancy(self, logits: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """L_md: Σ_k α_k,y KL(w_k ‖ w), averaged over the batch."""
        divergence = torch.nn.functional.kl_div
        ours = logits.log_softmax(1)
        theirs = [model(x).log_softmax(1) for model in self.models]
        parts = [divergence(ours, t, reduction="none", log_target=True).sum(1) for t in theirs]
        return self.weigh(y, parts).mean()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """L_cls: cross entropy of the logits Σ_k α_k,y f(x; w_k)."""
        logits = self.weigh(y, [model(x) for model in self.models])
        return torch.nn.functional.cross_entropy(logits, y)


def diversity_loss(x: Tensor, z: Tensor) -> Tensor:
    """L_dis: exp(−mean over all pairs of |x_i − x_j| (z_i − z_j)²), averaged over their entries.

    The formula's norms are sums over entries: of images, their exponential is 0 to the last bit.
    FedGen has the same loss of its features; here no tensor holds all pairs of images.
    """
    flat = x.flatten(1)
    apart = torch.cdist(flat, flat, p=1) / flat.shape[1]
    return torch.exp(-(apart * (z[:, None] - z).square().mean(2)).mean())
