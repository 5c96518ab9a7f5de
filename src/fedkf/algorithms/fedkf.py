"""FedKF (Zhou et al., 2023): fuse global knowledge, distilled without data, with local knowledge.

T1, the mean over every client's latest model (OCA), is kept by the server for any algorithm. This
file is T2: each active client trains a generator against the teacher, and its model on its own data
and on what the teacher says about generated samples (Algorithm 1, ClientUpdate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.distillation.losses import judge

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.core.samples import Samples
    from fedkf.core.server import Server


@dataclass(frozen=True)
class FedKF(Algorithm):
    """FedKF; `teacher: aca` makes the communication-efficient variant FedKF-.

    >>> FedKF(gamma=0.5).gamma
    0.5
    """

    name: ClassVar[str] = "fedkf"
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    private: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    uses_generator: ClassVar[bool] = True
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "text": dict(first_round="distil", resample=True, entropy="sum", activation="sum"),
        "released": dict(first_round="plain", resample=False, entropy="scaled", activation="mean"),
    }

    gamma: float = option(1.0, "weight of the KL loss in the local model's loss", at_least=0)
    lambda1: float = option(0.1, "weight of the one-hot loss in the generator's", at_least=0)
    lambda2: float = option(0.1, "weight of the activation loss in the generator's", at_least=0)
    teacher: str = option("oca", "who teaches: oca or aca", choices=("oca", "aca"))
    first_round: str = option(
        "distil",
        "in round 1 distil from w⁰, or train on local data only",
        choices=("distil", "plain"),
    )
    resample: bool = option(True, "a new generated batch for the model, after the generator's step")
    entropy: str = option("sum", "Σ p log p, or 1 + Σ p log p / log C", choices=("sum", "scaled"))
    activation: str = option("sum", "the feature's l1 norm, or its mean", choices=("sum", "mean"))
    adversarial: bool = option(False, "the generator also seeks samples where the model errs")

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if self.teacher == "oca" and not self._plain(server.round):
            teacher = server.overall or state["weights"]
            down.add("teacher", teacher, kind="weights", base="weights")
        return down

    def local_update(self, client: Client, down: Payload) -> Payload:
        if self._plain(client.round):
            return super().local_update(client, down)
        student = client.start(down["weights"])  # w_k ← w
        teacher = client.teacher(down["teacher" if "teacher" in down else "weights"])  # ŵ, fixed
        samples, distil = self.samples(client, down), client.task.objective.distil
        for x, y in client.batches():
            if fresh := client.steps % samples.reuse == 0:
                fake = samples.draw()
                features, logits = judge(teacher, fake)
                if self.resample and fake.requires_grad:
                    self.train_generator(client, samples, fake, features, logits)
                    with torch.no_grad():
                        fake = samples.draw()
                        logits = teacher(fake)
            with client.aside():
                kl = distil(logits.detach(), student(fake.detach()))
            client.step(client.loss(x, y) + self.gamma * kl)  # w_k ← w_k − η ∇L(w_k)
            if fresh and not self.resample:
                self.train_generator(client, samples, fake, features, logits)
            client.log(kl=kl)
        client.state = samples.state()
        return client.upload()

    def samples(self, client: Client, down: Payload) -> Samples:
        """θ_k, as this client left it."""
        return client.samples()

    def generator_loss(self, features: Tensor, logits: Tensor) -> Tensor:
        """L_G = L_IE + λ₁ L_OH + λ₂ L_A (Eq. 5); for a single output L_S + λ₂ L_A."""
        activation = activation_loss(features, mean=self.activation == "mean")
        if logits.shape[1] == 1:
            return spread_loss(logits) + self.lambda2 * activation
        entropy = information_entropy_loss(logits, scaled=self.entropy == "scaled")
        return entropy + self.lambda1 * one_hot_loss(logits) + self.lambda2 * activation

    def train_generator(
        self, client: Client, samples: Samples, fake: Tensor, features: Tensor, logits: Tensor
    ) -> None:
        """θ_k ← θ_k − β ∇L_G(θ_k), for samples that learn."""
        if not fake.requires_grad:
            return
        objective = client.task.objective
        loss = self.generator_loss(features, objective.logits(logits))
        if self.adversarial:
            with client.aside():
                kl = objective.distil(logits.detach(), client.model(fake))
                loss = loss - self.gamma * kl
        samples.learn(loss)
        client.log(generator=loss)

    def _plain(self, round: int) -> bool:
        return round == 1 and self.first_round == "plain"


@dataclass(frozen=True)
class FedKFMinus(FedKF):
    """FedKF-: the model that came down is also the teacher, so nothing more is sent."""

    name: ClassVar[str] = "fedkf-"
    teacher: str = option("aca", "who teaches: oca or aca", choices=("oca", "aca"))


def one_hot_loss(logits: Tensor) -> Tensor:
    """L_OH (Eq. 2): cross entropy against the class that the teacher finds likeliest."""
    return torch.nn.functional.cross_entropy(logits, logits.argmax(1))


def information_entropy_loss(logits: Tensor, scaled: bool = False) -> Tensor:
    """L_IE (Eq. 3): Σ p log p of the batch's mean prediction p; scaled to [0, 1] on request."""
    p = logits.softmax(1).mean(0)
    # A class with p = 0 adds nothing; the clamp keeps its logarithm, and the gradient, finite.
    negative = (p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum()
    return 1 + negative / math.log(p.numel()) if scaled else negative


def spread_loss(outputs: Tensor) -> Tensor:
    """L_S, for a number in place of classes: −½ log of the variance of the batch's predictions.

    As L_IE does for classes, it is minus an entropy, up to a constant: that of the normal
    distribution with this variance. A number has no class to be sure of, so that L_OH has no part.
    """
    return -0.5 * (outputs.var(correction=0) + 1e-6).log()


def activation_loss(features: Tensor, mean: bool = False) -> Tensor:
    """L_A (Eq. 4): minus the features' l1 norm, averaged over the batch; or minus their mean."""
    magnitude = features.flatten(1).abs()
    return -(magnitude.mean() if mean else magnitude.sum(1).mean())
