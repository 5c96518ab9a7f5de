"""FederatedData: every client's samples, normalised, in a few large tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkf.core.client import ClientData
from fedkf.data.partition import Indices
from fedkf.data.sources import Source


@dataclass(frozen=True)
class FederatedData:
    """All clients' training and test samples, each client's contiguous, in the order of ids."""

    images: torch.Tensor
    labels: torch.Tensor
    offsets: NDArray[np.int64]
    test_images: torch.Tensor
    test_labels: torch.Tensor
    test_offsets: NDArray[np.int64]
    names: list[str]
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.images.shape[1:])

    @property
    def sizes(self) -> dict[int, int]:
        """Training samples per client."""
        return {k: int(n) for k, n in enumerate(np.diff(self.offsets))}

    @property
    def test_sizes(self) -> list[int]:
        return [int(n) for n in np.diff(self.test_offsets)]

    def client(self, id: int) -> ClientData:
        train = slice(*self.offsets[id : id + 2])
        test = slice(*self.test_offsets[id : id + 2])
        return ClientData(
            self.images[train], self.labels[train], self.test_images[test], self.test_labels[test]
        )

    def to(self, device: str) -> FederatedData:
        names = ("images", "labels", "test_images", "test_labels")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def class_counts(self, id: int) -> list[int]:
        data = self.client(id)
        labels = torch.cat([data.labels, data.test_labels]).cpu()
        return [int(n) for n in labels.bincount(minlength=self.classes)]

    def digest(self) -> str:
        """A hash of every sample and of who holds it."""
        total = hashlib.sha256()
        for part in (self.images, self.labels, self.test_images, self.test_labels):
            total.update(part.numpy().tobytes())
        for offsets in (self.offsets, self.test_offsets):
            total.update(offsets.tobytes())
        return total.hexdigest()


def federate(
    source: Source,
    parts: Sequence[Indices],
    train_fraction: float,
    random: np.random.Generator,
    mean: Sequence[float],
    std: Sequence[float],
    image_size: int | None = None,
) -> FederatedData:
    """Split each client's samples into training and test, resize and normalise them once.

    The first `train_fraction` of a shuffle trains; a client always keeps one sample to train on.
    """
    train, test = [], []
    for part in parts:
        order = random.permutation(part)
        cut = max(1, int(train_fraction * len(order)))
        train.append(order[:cut])
        test.append(order[cut:])

    def gather(groups: list[Indices]) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.int64]]:
        chosen = np.concatenate(groups)
        images = normalise(source.images[chosen], mean, std, image_size)
        offsets = np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(np.int64)
        return images, torch.from_numpy(source.labels[chosen]), offsets

    return FederatedData(
        *gather(train),
        *gather(test),
        names=[f"client {k}" for k in range(len(parts))],
        classes=source.classes,
    )


def normalise(
    images: NDArray[Any], mean: Sequence[float], std: Sequence[float], size: int | None
) -> torch.Tensor:
    """N×H×W×C in uint8 or [0, 1] → N×C×S×S, (x − mean) / std, resized bilinearly."""
    x = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    x = x.float() / 255 if x.dtype == torch.uint8 else x.float()
    if size is not None and tuple(x.shape[2:]) != (size, size) and len(x):
        x = torch.nn.functional.interpolate(
            x, size=(size, size), mode="bilinear", align_corners=False, antialias=True
        )
    elif size is not None:
        x = x.reshape(len(x), x.shape[1], size, size)
    column = (1, -1, 1, 1)
    return (x - torch.tensor([*mean]).view(column)) / torch.tensor([*std]).view(column)
