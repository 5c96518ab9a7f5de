"""FedAvg's and FedKF's client update as a competent person would first write them in PyTorch.

NCHW, nearest-neighbour upsampling before convolutions, a pass for each batch, plain optimizers. It
computes what `fidelity: released` computes; the benchmarks compare with it and a test proves it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Generator(nn.Module):
    """The released generator, written down as it is described."""

    def __init__(
        self, side: int, noise: int, width: int, mean: float, std: float, channels: int = 1
    ) -> None:
        super().__init__()
        self.side, self.mean, self.std = math.ceil(side / 4), mean, std
        self.linear = nn.Linear(noise, width * self.side**2)
        self.norm0 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width, 0.8)
        self.conv2 = nn.Conv2d(width, width // 2, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(width // 2, 0.8)
        self.conv3 = nn.Conv2d(width // 2, channels, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        x = self.linear(z)
        x = self.norm0(x.view(len(z), -1, self.side, self.side))
        x = F.interpolate(x, scale_factor=2)
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.2)
        x = F.interpolate(x, scale_factor=2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        return (torch.sigmoid(self.conv3(x)) - self.mean) / self.std


class LeNet(nn.Module):
    """LeNet-5 at 32×32."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.conv3 = nn.Conv2d(16, 120, 5)
        self.linear1 = nn.Linear(120, 84)
        self.linear2 = nn.Linear(84, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.relu(self.conv3(x)).flatten(1)

    def classify(self, features: Tensor) -> Tensor:
        out: Tensor = self.linear2(F.relu(self.linear1(features)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


class Block(nn.Module):
    """A basic block with GroupNorm of one channel a group."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(planes, planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(planes, planes)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != planes:
            projection = nn.Conv2d(inputs, planes, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.GroupNorm(planes, planes))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    """ResNet-8 for images of three channels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(stem, nn.GroupNorm(64, 64), nn.ReLU())
        self.blocks = nn.Sequential(Block(64, 64, 1), Block(64, 128, 2), Block(128, 256, 2))
        self.linear = nn.Linear(256, classes)

    def features(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)

    def classify(self, features: Tensor) -> Tensor:
        out: Tensor = self.linear(features)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


def fedavg(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], lr: float) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def generator_loss(features: Tensor, logits: Tensor) -> Tensor:
    mean = logits.softmax(1).mean(0)
    entropy = 1 + (mean * mean.log()).sum() / math.log(len(mean))
    one_hot = F.cross_entropy(logits, logits.argmax(1))
    return entropy + 0.1 * one_hot - 0.1 * features.abs().mean()


def fedkf(
    student: LeNet | ResNet,
    teacher_weights: dict[str, Tensor],
    generator: Generator,
    batches: Iterable[tuple[Tensor, Tensor]],
    noise: Iterable[Tensor],
    lr: float,
    generator_lr: float = 1e-3,
) -> None:
    teacher = copy.deepcopy(student)
    teacher.load_state_dict(teacher_weights)
    teacher.eval()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    adam = torch.optim.Adam(generator.parameters(), lr=generator_lr)
    for (x, y), z in zip(batches, noise, strict=False):
        fake = generator(z)
        features = teacher.features(fake)
        logits = teacher.classify(features)
        loss_g = generator_loss(features, logits)

        soft = logits.detach().softmax(1)
        kl = F.kl_div(student(fake.detach()).log_softmax(1), soft, reduction="batchmean")
        loss = F.cross_entropy(student(x), y) + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        adam.zero_grad()
        loss_g.backward()
        adam.step()
