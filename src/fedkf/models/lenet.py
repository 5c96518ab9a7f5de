"""LeNet-5 as the released program has it, for any image size and number of channels."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from fedkf.models.convolutions import PooledConvolution

SMALLEST = 16


class LeNet5(nn.Module):
    """Three convolutions (6, 16, 120) and two linear layers.

    At 32×32 the last convolution is 5×5; at other sizes it covers whatever is left of the image, so
    there are always 120 features. Images under 16×16 are enlarged to 32×32 first.
    """

    samples_apart: ClassVar[bool] = True

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, *sides = shape
        self.enlarge = min(sides) < SMALLEST
        height, width = (((s - 4) // 2 - 4) // 2 for s in ([32, 32] if self.enlarge else sides))
        self.conv1 = PooledConvolution(channels, 6, 5)
        self.conv2 = PooledConvolution(6, 16, 5, filled=True)
        self.conv3 = nn.Conv2d(16, 120, (height, width))
        self.linear1 = nn.Linear(120, 84)
        self.linear2 = nn.Linear(84, classes)

    def features(self, x: Tensor) -> Tensor:
        if self.enlarge:
            x = F.interpolate(x, size=(32, 32), mode="bilinear", align_corners=False)
        x = self.conv2(self.conv1(x))
        # It covers the whole image: a matrix product.
        return F.relu(F.linear(x.flatten(1), self.conv3.weight.flatten(1), self.conv3.bias))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear2(F.relu(self.linear1(features)))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))
