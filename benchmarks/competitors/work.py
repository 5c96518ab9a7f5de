"""The work that every program of the comparison does in a round: the paper's EMNIST setting.

20 clients of 448 images (1×32×32, 26 classes), four of them active, ten local epochs of seven
batches of 64, LeNet-5, SGD with learning rate 0.01; weights are averaged; nothing is evaluated.
For FedKF with its exact generator, whose straightforward step takes a hundred times as long, it is
one local epoch.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
import straightforward
from alternate import turns

CLIENTS, ACTIVE, IMAGES, BATCH, CLASSES, LR = 20, 4, 448, 64, 26, 0.01
EPOCHS = 1 if sys.argv[1:] == ["fedkf"] else 10
NOISE, WIDTH = 100, 128

__all__ = ["straightforward"]


def client_data(client: int, images: int = IMAGES) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(client)
    x = torch.rand(images, 1, 32, 32, generator=stream)
    return x, torch.randint(0, CLASSES, (images,), generator=stream)


def active(round: int) -> list[int]:
    return random.Random(round).sample(range(CLIENTS), ACTIVE)


def batches(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(EPOCHS):
        for index in torch.randperm(len(y)).split(BATCH):
            yield x[index], y[index]


class Timer:
    """Rounds in turns: `next_round` is called between two of them."""

    def __init__(self) -> None:
        self.turns: Iterator[str] | None = None
        self.began = 0.0

    def next_round(self) -> None:
        """Say how long the last round took, but for the first; wait; False at the end."""
        if self.turns is None:
            self.turns = turns()
        else:
            print(time.perf_counter() - self.began, flush=True)
        if not next(self.turns, ""):
            raise SystemExit(0)
        self.began = time.perf_counter()
