"""PropFair (Zhang et al., 2022): proportional fairness, where a relative loss of one outweighs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, LocalLoss, option

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload


@dataclass(frozen=True)
class PropFair(Algorithm):
    """−log(M − F_k(w)) on every batch, continued as a straight line where M − F_k is below ε."""

    name: ClassVar[str] = "propfair"
    sums_only: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    fairness_aware: ClassVar[bool] = True
    baseline: float = option(5.0, "M, the loss from which clients count their gain", above=0)
    epsilon: float = option(0.2, "ε, the gain below which the logarithm goes on straight", above=0)

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        plain = super().local_loss(client, down)
        return lambda x, y: -self.utility(self.baseline - plain(x, y))

    def utility(self, gain: Tensor) -> Tensor:
        """log of the gain where that is at least ε, else its tangent at ε."""
        straight = gain / self.epsilon - 1 + math.log(self.epsilon)
        return torch.where(gain >= self.epsilon, gain.clamp_min(self.epsilon).log(), straight)
