"""Server optimizers: FedAvgM (Hsu et al., 2019), FedAdam and FedYogi (Reddi et al., 2021).

The mean of the clients' changes, weighted by size, is treated as a gradient by an optimizer on the
server. Buffers such as running statistics are averaged as in FedAvg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import combine, subtract, zeros_like
from fedkf.core.payload import Payload, Weights, weighted_mean

if TYPE_CHECKING:
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class FedAvgM(Algorithm):
    """v ← β v + Δ, w ← w + η v."""

    name: ClassVar[str] = "fedavgm"
    private: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    beta: float = option(0.9, "momentum of the server", at_least=0, at_most=1)
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def start(self, server: Server) -> State:
        state = super().start(server)
        return state.replace(momentum=zeros_like(state["weights"]))

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        mean = weighted_mean((u.size, u["weights"]) for u in uploads)
        change = subtract(mean, state["weights"])
        new = self.optimise(state, change)
        return new.replace(weights=with_mean_buffers(server, uploads, new["weights"]))

    def optimise(self, state: State, change: Weights) -> State:
        momentum = combine(lambda v, d: self.beta * v + d, state["momentum"], change)
        weights = combine(lambda w, v: w + self.server_lr * v, state["weights"], momentum)
        return state.replace(weights=weights, momentum=momentum)


@dataclass(frozen=True)
class FedAdam(FedAvgM):
    """m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ², w ← w + η m / (√v + τ)."""

    name: ClassVar[str] = "fedadam"
    private: ClassVar[bool] = True
    beta: float = option(0.9, "β₁, of the first moment", at_least=0, at_most=1)
    beta2: float = option(0.99, "β₂, of the second moment", at_least=0, at_most=1)
    server_lr: float = option(0.01, "learning rate of the server", above=0)
    tau: float = option(0.001, "τ, how far the steps adapt", above=0)

    def start(self, server: Server) -> State:
        state = super().start(server)
        squares = combine(lambda w: torch.full_like(w, self.tau**2), state["weights"])
        return Payload(**{**state.tensors, "squares": squares})

    def optimise(self, state: State, change: Weights) -> State:
        first = combine(lambda m, d: self.beta * m + (1 - self.beta) * d, state["momentum"], change)
        second = combine(self.second_moment, state["squares"], change)
        weights = combine(
            lambda w, m, v: w + self.server_lr * m / (v.sqrt() + self.tau),
            state["weights"],
            first,
            second,
        )
        return state.replace(weights=weights, momentum=first, squares=second)

    def second_moment(self, v: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return self.beta2 * v + (1 - self.beta2) * d.square()


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """As FedAdam, with v ← v − (1 − β₂) Δ² sign(v − Δ²)."""

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        square = d.square()
        return v - (1 - self.beta2) * square * (v - square).sign()
