"""CCVR (Luo et al., 2021): after training, the classifier is calibrated on virtual features.

Clients describe their features class by class; the server draws features from Gaussians that fit,
and trains the layers after the features on them. The readout OCA stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option
from fedkf.core.batches import batch_indices
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.task import Training, copy_of
from fedkf.models.features import feature_shape, features_and_logits, predictor

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.payload import Weights
    from fedkf.core.server import Server, Upload
    from fedkf.core.task import Task

Gaussian = tuple[int, "Tensor", "Tensor"]
"""How many samples of a class there are, the mean of their features and the covariance."""


@dataclass(frozen=True)
class CCVR(Algorithm):
    """FedAvg, then a classifier trained on draws from N(μ_c, Σ_c) for every class c."""

    name: ClassVar[str] = "ccvr"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    discloses: ClassVar[tuple[str, ...]] = ("label_counts", "feature_statistics")
    client_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Algorithm.client_steps,
        "describe": ("label_counts", "feature_statistics"),
    }
    uses_features: ClassVar[bool] = True
    tiny: ClassVar[Mapping[str, Any]] = dict(virtual=2, epochs=1)

    virtual: int = option(100, "M_c, virtual features of each class", at_least=1)
    epochs: int = option(10, "passes over the virtual features; 0 gives FedAvg", at_least=0)
    server_batch: int = option(64, "virtual features in a step", at_least=1)
    server_lr: float = option(0.01, "learning rate of the classifier", above=0)
    server_momentum: float = option(0.9, "momentum of the classifier", at_least=0, at_most=1)

    def start(self, server: Server) -> State:
        classifier(server.task, server.task.initial_weights)  # a mistake is told before training
        return super().start(server)

    def finish(self, server: Server, readouts: dict[str, Weights]) -> dict[str, Weights]:
        weights = readouts["aca"]
        uploads = server.exchange("describe", sorted(server.sizes), Payload(weights=weights))
        with server.own_work("calibration") as random:
            calibrated = self.calibrate(server.task, weights, gaussians(uploads), random)
        return {**readouts, "aca": calibrated}

    def fault(self, server: Server, step: str, upload: Payload) -> str:
        if step != "describe":
            return ""
        counts, statistics = upload.numbers["label_counts"], upload["feature_statistics"]
        size = math.prod(feature_shape(server.task))
        known = {str(label) for label in range(server.task.classes)}
        wanted = {f"{part}-{label}" for label in counts for part in ("mean", "covariance")}
        if statistics.keys() - wanted or upload["label_counts"]:
            return "its statistics are of classes that it does not count"
        for label, count in counts.items():
            mean, spread = (statistics.get(f"{k}-{label}") for k in ("mean", "covariance"))
            fits = mean is not None and list(mean.shape) == [size]
            fits &= spread is not None and list(spread.shape) == [size, size]
            if label not in known or count < 1 or not fits:
                return f"its statistics of class {label} cannot be used"
        return ""

    def describe(self, client: Client, down: Payload) -> Payload:
        """Count, mean and covariance of the features of each class that the client holds."""
        model, labels = client.teacher(down["weights"]), client.data.labels.cpu()
        with client.task.precision(training=False):
            parts = [features_and_logits(model, x)[0] for x in client.data.images.split(256)]
        whole = torch.cat(parts).flatten(1).cpu()
        features, dtype = whole.double(), whole.dtype
        counts, statistics = {}, {}
        for label in labels.unique().tolist():
            own = features[labels == label]
            mean = own.mean(0)
            counts[str(label)] = len(own)
            statistics[f"mean-{label}"] = mean.to(dtype)
            spread = (own - mean).T @ (own - mean) / max(1, len(own) - 1)
            statistics[f"covariance-{label}"] = spread.to(dtype)
        return Payload(label_counts=counts, feature_statistics=statistics)

    def calibrate(
        self,
        task: Task,
        weights: Weights,
        classes: Mapping[int, Gaussian],
        random: torch.Generator,
    ) -> Weights:
        """The model with its classifier, and nothing else, trained on virtual features."""
        model, classify, head = classifier(task, weights)
        drawn = [draw(self.virtual, *classes[c][1:], random) for c in sorted(classes)]
        z = torch.cat(drawn).view(-1, *feature_shape(task)).to(task.device, head[0].dtype)
        y = torch.tensor(sorted(classes)).repeat_interleave(self.virtual).to(task.device)
        optimizer = torch.optim.SGD(head, lr=self.server_lr, momentum=self.server_momentum)
        for _ in range(self.epochs):
            plan = Training(batch_size=self.server_batch)
            for index in batch_indices(len(y), plan, random):
                optimizer.zero_grad(set_to_none=True)
                task.loss(classify(z[index]), y[index]).backward()
                optimizer.step()
        return copy_of(model)


def classifier(
    task: Task, weights: Weights
) -> tuple[nn.Module, Callable[[Tensor], Tensor], list[nn.Parameter]]:
    """A model in evaluation mode, what makes logits of its features, and that part's parameters."""
    model = task.load("student", weights).eval()
    classify = predictor(model, torch.zeros(1, *task.shape, device=task.device))
    logits = classify(torch.zeros(1, *feature_shape(task), device=task.device))
    if not logits.requires_grad:
        raise UserError("ccvr calibrates what follows the features, but nothing there is learned")
    logits.sum().backward()
    head = [p for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return model, classify, head


def gaussians(uploads: Sequence[Upload]) -> dict[int, Gaussian]:
    """Mean and covariance of each class over all clients, from those of every client (Eq. 3, 4).

    Exactly what the pooled features would give: the spread within the clients plus that between
    their means.
    """
    parts: dict[int, list[Gaussian]] = {}
    for upload in uploads:
        for label, count in upload.payload.numbers["label_counts"].items():
            statistics = upload["feature_statistics"]
            mean = statistics[f"mean-{label}"].double()
            covariance = statistics[f"covariance-{label}"].double()
            parts.setdefault(int(label), []).append((int(count), mean, covariance))
    merged = {}
    for number, known in parts.items():
        total = sum(n for n, _, _ in known)
        mean = torch.stack([n * m for n, m, _ in known]).sum(0) / total
        within = torch.stack([(n - 1) * s for n, _, s in known]).sum(0)
        between = torch.stack([n * torch.outer(m - mean, m - mean) for n, m, _ in known]).sum(0)
        merged[number] = (total, mean, (within + between) / max(1, total - 1))
    return merged


def draw(count: int, mean: Tensor, covariance: Tensor, random: torch.Generator) -> Tensor:
    """Draws from N(mean, covariance), which may be singular: few samples span few directions."""
    values, directions = torch.linalg.eigh(covariance)
    root: Tensor = directions * values.clamp_min(0).sqrt()
    noise = torch.randn(count, len(mean), generator=random, dtype=torch.float64)
    features: Tensor = mean + noise @ root.T
    return features
