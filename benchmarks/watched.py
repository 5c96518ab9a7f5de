"""FedKF that tells what its generators make, to see what a loss of theirs does.

    PYTHONPATH=benchmarks fedkf sweep benchmarks/suites/text-why.yaml --out runs/text-why

The means of a round stand under `losses` in rounds.jsonl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.algorithms.fedkf import FedKF, information_entropy_loss

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.samples import Samples


@dataclass(frozen=True)
class Watched(FedKF):
    """FedKF, byte for byte, with two numbers more about each generated batch."""

    name: ClassVar[str] = "watched"
    continues: ClassVar[bool] = True

    def train_generator(
        self, client: Client, samples: Samples, fake: Tensor, features: Tensor, logits: Tensor
    ) -> None:
        """`kinds`: e to the entropy of the teacher's mean word, so many classes as if alike often.

        `feature`: the mean of the teacher's features.
        """
        client.log(
            kinds=(-information_entropy_loss(logits)).exp(),
            feature=features.flatten(1).abs().mean(),
        )
        super().train_generator(client, samples, fake, features, logits)
