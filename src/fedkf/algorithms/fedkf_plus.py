"""FedKF+: FedKF with cheap steps, better samples, a student that forgets less and a swifter server.

The teacher is fixed during a client's turn. So its word is taken once: on a pool of samples, some
from the client's generator and some warped from its own, and on the client's own samples, where its
view of the classes that are not true is kept. What is left of distillation in a step of the model
is a pass over a few samples more. And T1's mean says where everybody's models are heading, with
little of the noise that the few active clients have: the server goes on that way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.algorithms.fedkf import FedKF
from fedkf.algorithms.fedntd import without
from fedkf.core.algorithm import State, option
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.samples import Samples, Sampling
from fedkf.distillation.losses import judge, kl_loss
from fedkf.distillation.pool import Pool, drawn, outputs_of, warps

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload


FEW, MOST = 0.5, 0.8
"""Shares of clients away: up to the first there is no drive, from the second on all of it."""


@dataclass(frozen=True)
class FedKFPlus(FedKF):
    """L_CE + γ_k KL on the pool + β_k KL over the classes that are not true on own samples.

    Who holds few classes has less to keep of the others' on its own samples: with s_k the chance
    that two of its samples are of one class, β_k = β (1 − s_k), and γ_k = γ (1 + a s_k).
    On the server w ← ACA + κ (OCA − OCA a round before), if `MOST` of the clients are away; where
    only `FEW` are, ACA is almost everybody's mean itself, and κ is 0.
    """

    name: ClassVar[str] = "fedkf+"
    continues: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    means_by_server: ClassVar[bool] = True
    private: ClassVar[bool] = True  # but for what `beside_loss` names
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    gamma: float = option(0.5, "γ, weight of the KL loss on the pool", at_least=0)
    beta: float = option(1.5, "β, weight of the not-true loss on own samples", at_least=0)
    scarcity: float = option(0.0, "a, how much more the pool counts for few classes", at_least=0)
    drive: float = option(
        0.9, "κ, how much of OCA's last move the server adds to ACA", at_least=0, at_most=1
    )
    pool: int = option(256, "samples that a turn distils on, or fewer if it is short", at_least=2)
    warped: float = option(0.5, "share of the pool warped from own samples", at_least=0, at_most=1)
    generator_every: int = option(16, "steps of the model for one of the generator", at_least=1)
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

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        new, after = super().aggregate(server, state, uploads), server.overall
        if after is None or not self.drive:
            return new
        away = 1 - len(server.active) / len(server.sizes)
        drive = self.drive * min(1.0, (away - FEW) / (MOST - FEW))
        if "overall" in state and drive > 0:
            weights, before = dict(new["weights"]), state["overall"]
            for name in server.task.parameters:  # statistics of batches are no place to move on
                weights[name] = weights[name] + drive * (after[name] - before[name])
            new = new.replace(weights=weights)
        return new.replace(overall=after)

    def local_update(self, client: Client, down: Payload) -> Payload:
        if self._plain(client.round):
            return super().local_update(client, down)
        client.start(down["weights"])
        teacher = client.teacher(down["teacher" if "teacher" in down else "weights"])
        pool = self.make_pool(client, teacher) if self.gamma else None
        if client.private is not None:
            return self.trained_by_loss(client, pool)
        own = not_true(client, teacher) if self.beta else None
        alike = chance_of_alike(client)
        gamma, beta = self.gamma * (1 + self.scarcity * alike), self.beta * (1 - alike)
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

    def beside_loss(self) -> list[str]:
        """The pool has samples in it, γ_k and β_k know the labels, the teacher is asked of all."""
        used = {
            "beta": self.beta,
            "scarcity": self.gamma * self.scarcity,
            "warped": self.gamma * self.warped,
        }
        return [name for name, value in used.items() if value]

    def trained_by_loss(self, client: Client, pool: Pool | None) -> Payload:
        """L_CE + γ KL on the pool, where samples are reached through the local loss alone."""
        for x, y in client.batches():
            loss = client.loss(x, y)
            if pool is not None:
                fake, taught = pool.at(client.steps)
                with client.aside():
                    kl = client.task.objective.distil(taught, client.model(fake))
                loss = loss + self.gamma * kl
                client.log(kl=kl)
            client.step(loss)
        return client.upload()

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
            # Two at least: a generator that normalises batches cannot make a single sample.
            parts.append(drawn(samples, max(2, size - warped))[: size - warped])
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


def not_true(client: Client, teacher: nn.Module) -> Tensor | None:
    """The teacher's view of the classes that are not true, for every sample of the client's own.

    None where there are no three classes: nothing is left to have a view of.
    """
    data = client.data
    if client.task.outputs < 3:
        return None
    return without(outputs_of(teacher, data.images), data.labels).softmax(1)


def both(client: Client, x: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
    """The local model's logits of its own batch and of generated samples.

    In one pass, unless a layer couples batches: then the generated ones leave no trace.
    """
    if not client.joins_batches:
        logits = client.model(x)
        with client.aside():
            return logits, client.model(fake)
    together: Tensor = client.model(torch.cat([x, fake]))
    return together[: len(x)], together[len(x) :]
