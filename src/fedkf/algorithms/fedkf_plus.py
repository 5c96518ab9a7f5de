"""FedKF+: FedKF with cheap steps, better samples and a student that forgets less.

The teacher is fixed during a client's turn. So its word is taken once: on a pool of samples, some
from the client's generator and some warped from its own, and on the client's own samples, where its
view of the classes that are not true is kept. What is left of distillation in a step of the model
is a pass over a few samples more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.algorithms.fedkf import FedKF
from fedkf.algorithms.fedntd import without
from fedkf.core.algorithm import option
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.samples import Samples, Sampling
from fedkf.distillation.losses import judge, kl_loss
from fedkf.distillation.pool import Pool, drawn, outputs_of, warps

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client


@dataclass(frozen=True)
class FedKFPlus(FedKF):
    """L_CE + γ_k KL on the pool + β_k KL over the classes that are not true on own samples.

    Who holds few classes has more to learn from the pool and less from its own samples, and who is
    badly served by the teacher heeds it less: with s_k the chance that two of its samples are of
    one class, q_k the teacher's accuracy on its samples and h_k = min(1, c q_k),
    γ_k = γ h_k (1 + a s_k) and β_k = β h_k (1 − s_k).
    """

    name: ClassVar[str] = "fedkf+"
    continues: ClassVar[bool] = True
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    beta: float = option(1.5, "β, weight of the not-true loss on own samples", at_least=0)
    scarcity: float = option(2.0, "a, how much more the pool counts for few classes", at_least=0)
    heed: float = option(1.0, "c, of the teacher's accuracy on own samples; 0: always", at_least=0)
    pool: int = option(512, "samples that a turn distils on, or fewer if it is short", at_least=1)
    warped: float = option(0.5, "share of the pool warped from own samples", at_least=0, at_most=1)
    generator_every: int = option(8, "steps of the model for one of the generator", at_least=1)
    haste: float = option(8.0, "times generator.lr: few steps, so longer ones", above=0)
    first_round: str = option(
        "plain",
        "in round 1 distil from w⁰, or train on local data only",
        choices=("distil", "plain"),
    )
    resample: bool = option(False, "always false: the pool is drawn when the generator has learned")
    entropy: str = option(
        "scaled", "Σ p log p, or 1 + Σ p log p / log C", choices=("sum", "scaled")
    )
    activation: str = option("mean", "the feature's l1 norm, or its mean", choices=("sum", "mean"))
    adversarial: bool = option(False, "always false: the pool is there before the model moves")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("resample", "adversarial"):
            if getattr(self, name):
                raise UserError(
                    f"algorithm.{name} is True; fedkf+ makes its samples before the model's first "
                    "step, so it must be false"
                )

    def local_update(self, client: Client, down: Payload) -> Payload:
        if self._plain(client.round):
            return super().local_update(client, down)
        client.start(down["weights"])
        teacher = client.teacher(down["teacher" if "teacher" in down else "weights"])
        pool = self.make_pool(client, teacher) if self.gamma else None
        said = outputs_of(teacher, client.data.images) if self.gamma or self.beta else None
        own = not_true(client, said) if self.beta and said is not None else None
        alike, heeded = chance_of_alike(client), self.heeded(client, said)
        gamma = self.gamma * heeded * (1 + self.scarcity * alike)
        beta = self.beta * heeded * (1 - alike)
        for index in client.indices():
            x, y = client.data.images[index], client.data.labels[index]
            if pool is None:
                outputs = client.model(x)
                loss = client.task.loss(outputs, y)
            else:
                fake, taught = pool.at(client.steps)
                outputs, said = both(client, x, fake)
                kl = client.task.objective.distil(taught, said)
                loss = client.task.loss(outputs, y) + gamma * kl
                client.log(kl=kl)
            if own is not None:
                kept = kl_loss(own[index], without(outputs, y))
                loss = loss + beta * kept
                client.log(not_true=kept)
            client.step(loss)
        return client.upload()

    def heeded(self, client: Client, said: Tensor | None) -> float:
        """h = min(1, c q) with q the share of own samples of which the teacher is right.

        1 for a task without classes, where being right is no yes or no.
        """
        if said is None or not self.heed or not client.task.objective.labelled():
            return 1.0
        right = client.task.objective.logits(said).argmax(1) == client.data.labels
        return min(1.0, self.heed * float(right.double().mean()))

    def make_pool(self, client: Client, teacher: nn.Module) -> Pool:
        """What the whole turn distils on: the client's own samples, warped, and generated ones."""
        random, count = client.random("pool"), client.task.part(Sampling).count(client.task)
        size = min(self.pool, client.planned * count)
        warped, parts = round(self.warped * size), []
        if warped:
            parts.append(drawn(warps(client), warped))
        if warped < size:
            samples = self.samples(client, Payload())
            self.train(client, samples, teacher)
            parts.append(drawn(samples, size - warped))
            client.state = samples.state()
        return Pool(parts, teacher, count, random)

    def train(self, client: Client, samples: Samples, teacher: nn.Module) -> None:
        """The generator's steps of this turn, for samples that learn."""
        samples.haste = self.haste
        for _ in range(math.ceil(client.planned / self.generator_every)):
            fake = samples.draw()
            if not fake.requires_grad:
                return
            self.train_generator(client, samples, fake, *judge(teacher, fake))


def chance_of_alike(client: Client) -> float:
    """s = Σ_c (n_c / n)², the chance that two of the client's samples are of one class.

    0 for a task without classes.
    """
    if not client.task.objective.labelled():
        return 0.0
    counts = client.data.labels.bincount().double()
    return float((counts / counts.sum()).square().sum())


def not_true(client: Client, said: Tensor) -> Tensor | None:
    """The teacher's view of the classes that are not true, for every sample of the client's own.

    None where there are no three classes: nothing is left to have a view of.
    """
    return None if client.task.outputs < 3 else without(said, client.data.labels).softmax(1)


def both(client: Client, x: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
    """The local model's logits of its own batch and of generated samples.

    In one pass, unless batches are normalised: then the generated ones leave no trace.
    """
    if client.normalises_batches:
        logits = client.model(x)
        with client.aside():
            return logits, client.model(fake)
    together: Tensor = client.model(torch.cat([x, fake]))
    return together[: len(x)], together[len(x) :]
