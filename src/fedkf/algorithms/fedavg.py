"""FedAvg (McMahan et al., 2017): average the active clients' models, weighted by their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedkf.core.algorithm import Algorithm


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The defaults of `Algorithm` are FedAvg.

    >>> FedAvg().name
    'fedavg'
    """

    name: ClassVar[str] = "fedavg"
    sums_only: ClassVar[bool] = True
