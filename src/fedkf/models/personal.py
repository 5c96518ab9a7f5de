"""Ways of making a shared model a client's own: all of it, its head, or a mixture of both.

Only the client's training samples are used. What must be chosen is chosen on a part of them that is
held out for that; test samples have no say in anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from fedkf.core.arithmetic import combine
from fedkf.core.batches import batch_indices, normalises_batches
from fedkf.core.evaluation import mean_loss
from fedkf.core.optimizers import make_optimizer
from fedkf.core.task import copy_of, learned
from fedkf.models.features import features_and_logits

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.payload import Weights

HELD_OUT = 0.2
"""The share of a client's training samples on which a mixture is chosen."""
LEAST = 5
"""A client with fewer training samples has none to hold out, and keeps the shared model."""
SHARES = tuple(k / 10 for k in range(11))
"""How much of a mixture can be the client's own model."""
CHUNK = 1024


@dataclass(frozen=True)
class Personal:
    """Makes personal models by one of the methods; `epochs` are of local training."""

    method: str
    epochs: int

    def __call__(self, client: Client, shared: Weights) -> Weights:
        """The client's own model, from the shared one."""
        everything = torch.arange(client.size)
        if self.method != "interpolate":
            return self.trained(client, shared, everything)
        trains, held = held_out(client)
        if not len(held):
            return shared
        share = best_share(client, shared, self.trained(client, shared, trains), held)
        if share == 0:
            return shared
        return mixed(shared, self.trained(client, shared, everything), share)

    def trained(self, client: Client, shared: Weights, samples: Tensor) -> Weights:
        """The shared model after training on some of the client's samples."""
        model = client.start(shared)
        data, training = client.data, client.task.training
        training = replace(training, local_epochs=self.epochs, steps_per_epoch=None)
        # What a schedule leaves after the last round is nearly nothing, and no turn of a run.
        unscheduled = replace(training, schedule="constant")
        client.optimizer = make_optimizer(unscheduled, model, client.round)
        random = client.task.streams.torch_generator("personal batches", client.round, client.id)
        alone, free = normalises_batches(model), learned(model)
        if self.method == "head":
            freeze_features(model.eval(), data.images[:1])
            alone = False
        try:
            for index in batch_indices(len(samples), training, random):
                if len(index) == 1 and alone:  # batch norm cannot train on a single sample
                    continue
                chosen = samples[index]
                # The step around it judges, in which training is not looked for.
                with client.task.precision(training=True):
                    loss = client.task.loss(model(data.images[chosen]), data.labels[chosen])
                client.step(loss)
            return copy_of(model)
        finally:
            for parameter in free.values():
                parameter.requires_grad_(True)


def freeze_features(model: nn.Module, x: Tensor) -> None:
    """Leave only the parameters free that the features of an input do not depend on."""
    features, _ = features_and_logits(model, x)
    if not features.requires_grad:  # the features are the input: all of the model is its head
        return
    parameters = list(learned(model).values())
    used = torch.autograd.grad(features.sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, used, strict=True):
        parameter.requires_grad_(gradient is None)


def held_out(client: Client) -> tuple[Tensor, Tensor]:
    """The client's training samples that train, and those that a choice is made on."""
    order = torch.randperm(client.size, generator=client.random("validation"))
    count = max(1, round(HELD_OUT * client.size)) if client.size >= LEAST else 0
    return order[count:], order[:count]


def best_share(client: Client, shared: Weights, own: Weights, held: Tensor) -> float:
    """How much of the mixture is to be the client's own: what has the least loss on `held`.

    Of equals it is the least, and 0 where no mixture has a loss at all.
    """
    best, least = 0.0, math.inf
    for share in SHARES:
        loss = loss_on(client, mixed(shared, own, share), held)
        if loss < least:
            best, least = share, loss
    return best


def loss_on(client: Client, weights: Weights, samples: Tensor) -> float:
    """The mean loss of a model on some of the client's training samples."""
    model, data = client.task.load("student", weights).eval(), client.data
    return mean_loss(client.task, model, data.images[samples], data.labels[samples], CHUNK)


def mixed(shared: Weights, own: Weights, share: float) -> Weights:
    """(1 − share) · shared + share · own."""
    return combine(lambda mine, theirs: torch.lerp(theirs, mine, share), own, shared)
