"""FedGen (Zhu et al., 2021): a generator of features carries what the clients' models agree on.

The server trains it against the predictors of the uploaded models, which takes the clients' label
counts; clients train their own predictor on its features too, so that they do not forget classes
that they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch

from fedkf.core.algorithm import Algorithm, LocalLoss, State, option
from fedkf.core.optimizers import memory_of, remember
from fedkf.core.payload import Payload
from fedkf.core.task import copy_of
from fedkf.models.features import feature_shape, predictor

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Weights
    from fedkf.core.server import Server, Upload
    from fedkf.core.task import Task
    from fedkf.models.feature_generator import FeatureGenerator

Predictor = Callable[["Tensor"], "Tensor"]


@dataclass(frozen=True)
class FedGen(Algorithm):
    """F_k(w) + weight · E CE(predictor(G(y, ε)), y), y drawn as the labels are known to fall."""

    name: ClassVar[str] = "fedgen"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    continues: ClassVar[bool] = True
    discloses: ClassVar[tuple[str, ...]] = ("label_counts",)
    uploads: ClassVar[tuple[str, ...]] = ("weights", "label_counts/count")
    uses_features: ClassVar[bool] = True
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "text": dict(
            ensemble="labels", draws="counts", relu=False, server_batch=32, server_lr=3e-4
        ),
        "released": dict(
            ensemble="sized-logits", draws="sized", relu=True, server_batch=64, server_lr=1e-4
        ),
    }
    tiny: ClassVar[Mapping[str, Any]] = dict(server_steps=1, server_batch=2)

    weight: float = option(1.0, "of generated features in a client's loss", at_least=0)
    ensemble: str = option(
        "labels",
        "a model's loss counts by its samples of the label or by its size; or its logits join one "
        "mean of all, alike or by size",
        choices=("labels", "sizes", "logits", "sized-logits"),
    )
    draws: str = option(
        "counts",
        "labels fall as the clients have them, or by Σ size · count over the round's clients",
        choices=("counts", "sized"),
    )
    relu: bool = option(False, "the generator ends in a ReLU, as the features of many models do")
    diversity: float = option(1.0, "weight of the diversity loss", at_least=0)
    hidden: int = option(256, "width of the generator", at_least=1)
    latent: int = option(32, "length of the generator's noise", at_least=1)
    server_steps: int = option(50, "steps of the generator a round", at_least=0)
    server_batch: int = option(32, "features in a step of the generator", at_least=2)
    server_lr: float = option(3e-4, "learning rate of the generator's Adam", above=0)

    # -- on a client ----------------------------------------------------------------------------

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        counts = client.data.labels.cpu().bincount(minlength=client.task.classes)
        return upload.add("label_counts", {"count": counts})

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain = super().local_loss(client, down)
        if "generator" not in down:
            return plain  # the first round: nothing has been learned from the clients yet
        generator = self.generator(client.task, down["generator"]).eval().requires_grad_(False)
        client.model.eval()  # finding the predictor must leave no trace in the model
        predict = predictor(client.model, client.data.images[:1])
        client.model.train()
        shares, count = down["label_counts"]["share"], client.task.training.batch_size
        random = client.random("generated features")

        def loss(x: Tensor, y: Tensor) -> Tensor:
            labels = torch.multinomial(shares, count, True, generator=random).to(y.device)
            features = generator(labels, generator.draw(count, random))
            with client.aside():
                generated = client.task.loss(predict(features), labels)
            client.log(generated=generated)
            return plain(x, y) + self.weight * generated

        return loss

    # -- on the server --------------------------------------------------------------------------

    def start(self, server: Server) -> State:
        task = server.task
        first = task.initial("feature generator", partial(self.make_generator, task))
        return super().start(server).add("generator", first).add("adam", {})

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if "label_counts" in state:
            down.add("generator", state["generator"], "weights")
            down.add("label_counts", state["label_counts"])
        return down

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        shares = self.known_labels(server, uploads)
        with server.own_work("feature generator") as random:
            trained = self.train_generator(server.task, state, uploads, random)
        return super().aggregate(server, state, uploads).replace(label_counts=shares, **trained)

    def known_labels(self, server: Server, uploads: Sequence[Upload]) -> Weights:
        """How the clients of the next round are to draw labels: as all seen so far have them."""
        if self.draws == "sized":
            return {"share": self.drawn(uploads)}
        known = server.memory("labels", weighted=False)
        for upload in uploads:
            known.put(upload.client, {"share": upload["label_counts"]["count"].double()})
        shares = known.mean("seen", {"share": torch.zeros(server.task.classes).double()})
        assert shares is not None
        return shares

    def drawn(self, uploads: Sequence[Upload]) -> Tensor:
        """How often each label is drawn while the generator learns from these uploads."""
        sized = self.draws == "sized"
        parts = [(u.size if sized else 1) * u["label_counts"]["count"].double() for u in uploads]
        return torch.stack(parts).sum(0)

    def train_generator(
        self, task: Task, state: State, uploads: Sequence[Upload], random: torch.Generator
    ) -> dict[str, Weights]:
        """Steps of Adam, which goes on from the last round, down teacher_loss + diversity_loss."""
        generator = self.generator(task, state["generator"]).train().requires_grad_(True)
        optimizer = torch.optim.Adam(generator.parameters(), lr=self.server_lr)
        remember(optimizer, generator, state["adam"])
        x = torch.zeros(1, *task.shape, device=task.device)
        models = [task.load(f"teacher {k}", u["weights"]).eval() for k, u in enumerate(uploads)]
        predictors = [predictor(model.requires_grad_(False), x) for model in models]
        counts = torch.stack([u["label_counts"]["count"].double() for u in uploads])
        shares = self.shares(counts, [u.size for u in uploads]).to(task.device)
        chances = self.drawn(uploads)
        for _ in range(self.server_steps):
            labels = torch.multinomial(chances, self.server_batch, True, generator=random)
            labels, noise = labels.to(task.device), generator.draw(self.server_batch, random)
            features = generator(labels, noise)
            loss = self.teacher_loss(predictors, shares, features, labels)
            optimizer.zero_grad(set_to_none=True)
            (loss + self.diversity * diversity_loss(noise, features)).backward()
            optimizer.step()
        return {"generator": copy_of(generator), "adam": memory_of(optimizer, generator)}

    def shares(self, counts: Tensor, sizes: Sequence[int]) -> Tensor:
        """How much each model (rows) counts for each label (columns); columns sum to one."""
        if self.ensemble == "logits":
            counts = torch.ones_like(counts)
        elif self.ensemble != "labels":
            counts = torch.tensor(sizes).double()[:, None].expand_as(counts)
        return counts / counts.sum(0).clamp_min(1)

    def teacher_loss(
        self, predictors: Sequence[Predictor], shares: Tensor, features: Tensor, labels: Tensor
    ) -> Tensor:
        """How far the clients' predictors are from seeing the labels in the features."""
        logits = torch.stack([predict(features) for predict in predictors])
        entropy, shares = torch.nn.functional.cross_entropy, shares.to(logits.dtype)
        if self.ensemble in ("logits", "sized-logits"):
            return entropy((logits * shares[:, labels, None]).sum(0), labels)
        losses = torch.stack([entropy(part, labels, reduction="none") for part in logits])
        return (losses * shares[:, labels]).sum(0).mean()

    def generator(self, task: Task, weights: Weights) -> FeatureGenerator:
        make = partial(self.make_generator, task)
        return cast("FeatureGenerator", task.load("feature generator", weights, make))

    def make_generator(self, task: Task) -> FeatureGenerator:
        from fedkf.models.feature_generator import FeatureGenerator  # which needs torch at once

        shape = feature_shape(task)
        return FeatureGenerator(task.classes, shape, self.hidden, self.latent, self.relu)


def diversity_loss(noise: Tensor, features: Tensor) -> Tensor:
    """exp(−mean of |ε_i − ε_j|² · |f_i − f_j|₁), each distance averaged over its entries."""
    apart = (noise[:, None] - noise).square().mean(2)
    flat = features.flatten(1)
    return torch.exp(-(apart * (flat[:, None] - flat).abs().mean(2)).mean())
