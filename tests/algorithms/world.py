"""A small federation in plain NumPy and PyTorch: all that an oracle may look at.

Nothing here knows the package under test. Oracles are written against a `World`: its data, who
takes part in which round, and every draw of chance, derived here anew from the documented rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

State = dict[str, Tensor]
Batch = tuple[Tensor, Tensor]
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]

SIZES = (7, 11, 4, 15, 8, 12)
"""No batch of two: batch norm makes ±1 of it, and of rounding what it likes."""
ACTIVE = ((0, 2, 3), (1, 3, 4), (0, 1, 2), (2, 4), (0, 3, 4), (1, 2, 5), (0, 4, 5), (1, 3, 5))
"""Eight rounds in which clients pause, come back, and one is first seen in the sixth."""


class Bowl(nn.Module):
    """The value of each sample's quadratic ½ (w − c)ᵀ A (w − c); a sample holds A and c."""

    def __init__(self, dimensions: int = 3) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 1, dimensions, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        d = len(self.w)
        away = self.w - x[:, d * d :]
        return torch.einsum("ni,nij,nj->n", away, x[:, : d * d].view(-1, d, d), away) / 2


class Net(nn.Module):
    """Four inputs, five features, three classes; with batch norm on request."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        # A bias before a batch norm has no gradient but rounding, which Adam would blow up.
        self.inner = nn.Linear(4, 5, bias=not norm, dtype=torch.float64)
        self.norm = nn.BatchNorm1d(5, dtype=torch.float64) if norm else nn.Identity()
        self.outer = nn.Linear(5, 3, dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.inner(x)))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.outer(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x))


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    logs: Tensor = model(x).log_softmax(1)
    return -logs[torch.arange(len(y)), y].mean()


def mean_value(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    value: Tensor = model(x).mean()
    return value


@dataclass(frozen=True)
class World:
    """Clients with data, and how they train; rounds count from 1, as everywhere."""

    make_model: Callable[[], nn.Module]
    loss: Loss
    data: Sequence[Batch]
    tests: Sequence[Batch]
    classes: int
    active: Sequence[Sequence[int]] = ACTIVE
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    epochs: int = 2
    batch: int = 4
    seed: int = 5
    more: dict[str, Any] = field(default_factory=dict)
    """Further settings of the package's task, such as a generator."""

    @property
    def sizes(self) -> list[int]:
        return [len(y) for _, y in self.data]

    @property
    def clients(self) -> int:
        return len(self.data)

    @property
    def rounds(self) -> int:
        return len(self.active)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data[0][0].shape[1:])

    def but(self, **changes: Any) -> World:
        """The same world with other settings."""
        return replace(self, **changes)

    # -- chance ---------------------------------------------------------------------------------

    def integer(self, purpose: str, round: int = 0, client: int = -1) -> int:
        digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
        sequence = np.random.SeedSequence([self.seed, digest, round, client + 1])
        return int(sequence.generate_state(1, np.uint64)[0]) // 2

    def random(self, purpose: str, round: int = 0, client: int = -1) -> torch.Generator:
        """The stream of (seed, purpose, round, client)."""
        return torch.Generator().manual_seed(self.integer(purpose, round, client))

    def initial(self, purpose: str, make: Callable[[], nn.Module]) -> State:
        """A module's first weights, drawn from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.integer(purpose))
            return copy(make())

    @property
    def w0(self) -> State:
        return self.initial("model", self.make_model)

    def batches(self, round: int, client: int, purpose: str = "batches") -> list[Batch]:
        """The batches of a client's turn: split once after a shuffle, repeated every epoch."""
        x, y = self.data[client]
        order = torch.randperm(len(y), generator=self.random(purpose, round, client))
        return [(x[i], y[i]) for _ in range(self.epochs) for i in order.split(self.batch)]

    # -- learning -------------------------------------------------------------------------------

    def model(self, weights: State) -> nn.Module:
        """A module of its own with these weights, in training mode."""
        with torch.random.fork_rng(devices=[]):
            model = self.make_model().train()
        model.load_state_dict(weights)
        return model

    def learned(self) -> list[str]:
        """The names of the parameters; a model's other tensors are buffers."""
        return [name for name, _ in self.model(self.w0).named_parameters()]

    def whole_loss(self, weights: State, client: int) -> float:
        """The loss of a model, in evaluation mode, on all of a client's training data."""
        with torch.no_grad():
            return float(self.loss(self.model(weights).eval(), *self.data[client]))

    def train(
        self,
        start: State,
        batches: Sequence[Batch],
        loss: Loss | None = None,
        add: Callable[[nn.Module], Sequence[Tensor]] | None = None,
    ) -> State:
        """SGD with momentum and decay; `add` gives what joins each gradient, in their order."""
        model = self.model(start)
        parameters = list(model.parameters())
        velocity = [torch.zeros_like(p) for p in parameters]
        for number, (x, y) in enumerate(batches):
            gradients = torch.autograd.grad((loss or self.loss)(model, x, y), parameters)
            extra = add(model) if add else [torch.zeros_like(p) for p in parameters]
            with torch.no_grad():
                for i, p in enumerate(parameters):
                    g = gradients[i] + extra[i] + self.weight_decay * p
                    velocity[i] = self.momentum * velocity[i] + g if number else g
                    p.sub_(self.lr * velocity[i])
        return copy(model)


def copy(module: nn.Module) -> State:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def mean(weights: Sequence[float], models: Sequence[State]) -> State:
    """Σ a w / Σ a of floating-point tensors; integers are those of the first heaviest model."""
    heaviest = models[int(np.argmax(weights))]
    total = sum(weights)
    return {
        name: torch.stack([a * m[name] for a, m in zip(weights, models, strict=True)]).sum(0)
        / total
        if tensor.is_floating_point()
        else tensor
        for name, tensor in heaviest.items()
    }


def norm(state: State, names: Sequence[str]) -> float:
    """The Euclidean norm of the named tensors together."""
    return float(torch.cat([state[name].flatten() for name in names]).norm())


def quadratics(**changes: Any) -> World:
    """Every sample of every client a quadratic of its own, curvatures between 0.1 and 1."""
    random, d = torch.Generator().manual_seed(1), 3
    data = []
    for size in SIZES:
        centre = 2 * torch.randn(d, generator=random, dtype=torch.float64)
        rows = []
        for _ in range(size):
            basis = torch.linalg.qr(torch.randn((d, d), generator=random, dtype=torch.float64)).Q
            values = 0.1 + 0.9 * torch.rand(d, generator=random, dtype=torch.float64)
            away = torch.randn(d, generator=random, dtype=torch.float64)
            rows.append(torch.cat([(basis * values @ basis.T).flatten(), centre + away]))
        data.append((torch.stack(rows), torch.zeros(size, dtype=torch.long)))
    empty = [(x[:0], y[:0]) for x, y in data]
    return World(Bowl, mean_value, data, empty, classes=1).but(**changes)


def networks(norm: bool = False, **changes: Any) -> World:
    """Clients whose labels are skewed and whose inputs are shifted, and a tiny network."""
    random = torch.Generator().manual_seed(17)
    truth = torch.randn(4, 3, generator=random, dtype=torch.float64)

    def some(size: int, client: int) -> Batch:
        x = torch.randn(size, 4, generator=random, dtype=torch.float64)
        x[:, client % 4] += 1.5
        noise = torch.randn(size, 3, generator=random, dtype=torch.float64)
        return x, (x @ truth + noise).argmax(1)

    data = [some(size, k) for k, size in enumerate(SIZES)]
    tests = [some(40, k) for k in range(len(SIZES))]
    return World(lambda: Net(norm), cross_entropy, data, tests, classes=3).but(**changes)
