"""A federation of quadratics: every client's loss, gradient and optimum are known exactly.

f_k(w) = ½ (w − c_k)ᵀ A_k (w − c_k), run through the project's own server, clients and payloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

import fedkf
from fedkf.core.client import ClientData, ClientHost
from fedkf.core.random import Streams
from fedkf.core.server import Channel, Server, Storage
from fedkf.core.task import Task, Training
from fedkf.core.versions import Versions
from fedkf.engines.in_process import InProcessEngine


class Bowl(nn.Module):
    """The value of each sample's quadratic at w; a sample holds A and c."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(start.double())

    def forward(self, x: Tensor) -> Tensor:
        d = len(self.w)
        away = self.w - x[:, d * d :]
        return torch.einsum("ni,nij,nj->n", away, x[:, : d * d].view(-1, d, d), away) / 2


class Bowls(Task):
    """What is learned has a loss of its own: the mean of the samples' quadratics."""

    @staticmethod
    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return logits.mean()


class Quadratics:
    """Clients with A_k and c_k; client k holds sizes[k] copies of its quadratic as samples."""

    def __init__(
        self,
        curves: Sequence[Tensor],
        centres: Sequence[Tensor],
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.curves = [a.double() for a in curves]
        self.centres = [c.double() for c in centres]
        self.sizes = list(sizes or [1] * len(curves))
        self.history: list[Tensor] = []
        self.states: Versions

    def losses(self, w: Tensor) -> list[float]:
        pairs = zip(self.curves, self.centres, strict=True)
        return [float((w - c) @ a @ (w - c) / 2) for a, c in pairs]

    def optimum(self, shares: Sequence[float]) -> Tensor:
        """Where Σ shares f_k is least."""
        triples = list(zip(shares, self.curves, self.centres, strict=True))
        curve = torch.stack([p * a for p, a, _ in triples]).sum(0)
        right = torch.stack([p * a @ c for p, a, c in triples]).sum(0)
        found: Tensor = torch.linalg.solve(curve, right)
        return found

    def run(
        self,
        algorithm: fedkf.Algorithm,
        folder: Path,
        rounds: int,
        active: Sequence[Sequence[int]] = (),
        start: Tensor | None = None,
        **training: int | float | str,
    ) -> Tensor:
        """The global model after some rounds; every client is active unless `active` says who."""
        first = torch.zeros(len(self.centres[0])) if start is None else start
        streams = Streams(0)
        shape = (self.curves[0].numel() + len(first),)
        settings = Training(**{"batch_size": 10**6, "rounds": rounds, **training})  # type: ignore[arg-type]
        task = Bowls(lambda: Bowl(first.clone()), shape, 1, settings, streams)
        host = ClientHost(algorithm, task, Versions(folder), self.data)
        self.states = host.states
        sizes = dict(enumerate(self.sizes))
        engine = InProcessEngine(host)
        server = Server(task, sizes, Channel(engine), Storage(host.states))
        state = algorithm.start(server)
        self.history = [algorithm.model(state)["w"]]
        for round in range(1, rounds + 1):
            server.begin(round, active[round - 1] if active else range(len(self.sizes)))
            state = algorithm.round(server, state)
            self.history.append(algorithm.model(state)["w"])
        return self.history[-1]

    def kept(self, client: int, group: str) -> Tensor:
        """What a client holds in its private state after the run."""
        return self.states.load(client, self.states.latest[client])[group]["w"]

    def data(self, client: int) -> ClientData:
        row = torch.cat([self.curves[client].flatten(), self.centres[client]])
        x = row.repeat(self.sizes[client], 1)
        y = torch.zeros(len(x), dtype=torch.long)
        return ClientData(x, y, x[:0], y[:0])


def random_quadratics(seed: int, clients: int = 4, dimensions: int = 3) -> Quadratics:
    """Curvatures between 0.1 and 1, so that L = 1."""
    random = torch.Generator().manual_seed(seed)
    curves = []
    for _ in range(clients):
        square = torch.randn((dimensions, dimensions), generator=random, dtype=torch.float64)
        basis = torch.linalg.qr(square).Q
        values = 0.1 + 0.9 * torch.rand(dimensions, generator=random, dtype=torch.float64)
        values[0] = 1.0
        curves.append(basis @ values.diag() @ basis.T)
    centres = list(torch.randn((clients, dimensions), generator=random, dtype=torch.float64))
    return Quadratics(curves, centres)
