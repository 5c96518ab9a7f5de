"""Oracles of the rules in which models teach: FedGKD, MOON, FedDF, CCVR and FedGen.

Plain PyTorch on a `World` of tiny networks. Each yields the global model after every round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from world import State, World, copy, cross_entropy, mean


def judge(world: World, weights: State) -> Callable[[Tensor], Tensor]:
    """A fixed model: in evaluation mode, without gradients to itself."""
    model: Any = world.model(weights).eval().requires_grad_(False)
    return model  # type: ignore[no-any-return]


def kl(p: Tensor, logits: Tensor) -> Tensor:
    return (p * (p.log() - logits.log_softmax(1))).sum(1).mean()


def fedgkd(
    world: World, gamma: float, buffer: int, vote: bool, wait: bool, beta: float = 1.0
) -> Iterator[State]:
    w, models = world.w0, [world.w0]
    for t, active in enumerate(world.active, 1):
        past = models[-buffer:]
        plain = wait and len(models) - 1 < buffer  # w⁰ does not fill the buffer
        local = []
        for k in active:
            held = past if vote else [mean([1] * len(past), past[::-1])]
            losses = torch.tensor([world.whole_loss(m, k) for m in held], dtype=torch.float64)
            votes = (-losses / beta).softmax(0) if vote else torch.ones(1, dtype=torch.float64)
            teachers = [judge(world, m) for m in held]

            def loss(
                model: nn.Module,
                x: Tensor,
                y: Tensor,
                votes: Tensor = votes,
                teachers: Sequence[Callable[[Tensor], Tensor]] = teachers,
            ) -> Tensor:
                logits = model(x)
                own = F.cross_entropy(logits, y)
                parts = [
                    v * kl(h(x).softmax(1), logits) for v, h in zip(votes, teachers, strict=True)
                ]
                return own + gamma / 2 * torch.stack(parts).sum()

            local.append(world.train(w, world.batches(t, k), cross_entropy if plain else loss))
        w = mean([world.sizes[k] for k in active], local)
        models.append(w)
        yield w


def moon(world: World, mu: float, tau: float, outputs: int) -> Iterator[State]:
    def make_head() -> nn.Module:
        if not outputs:
            return nn.Identity()
        first, last = (nn.Linear(5, n, dtype=torch.float64) for n in (5, outputs))
        return nn.Sequential(first, nn.ReLU(), last)

    w, head = world.w0, world.initial("projection head", make_head)
    previous: dict[int, tuple[State, State]] = {}
    for t, active in enumerate(world.active, 1):
        local, heads = [], []
        for k in active:
            models: list[Any] = []
            for a, b in (
                (w, head),
                (w, head),
                previous.get(k, (world.w0, world.initial("projection head", make_head))),
            ):
                top = make_head()
                top.load_state_dict(b)
                models.append((world.model(a), top))
            (student, own), (near, near_head), (far, far_head) = models
            near.eval()
            far.eval()
            parameters, velocity = list(student.parameters()), list[Tensor]()
            for x, y in world.batches(t, k):
                features = student.features(x)
                z = own(features)
                with torch.no_grad():
                    a, b = near_head(near.features(x)), far_head(far.features(x))
                alike = [torch.exp(F.cosine_similarity(z, other) / tau) for other in (a, b)]
                contrast = -torch.log(alike[0] / (alike[0] + alike[1])).mean()
                loss = F.cross_entropy(student.classify(features), y) + mu * contrast
                above = list(own.parameters())
                g = torch.autograd.grad(loss, [*parameters, *above])
                mine = list(g[: len(parameters)])
                velocity = (
                    [world.momentum * v + d for v, d in zip(velocity, mine, strict=True)]
                    if velocity
                    else mine
                )
                with torch.no_grad():
                    for p, v in zip(parameters, velocity, strict=True):
                        p.sub_(world.lr * v)
                    for p, d in zip(above, g[len(parameters) :], strict=True):
                        p.sub_(world.lr * d)
            previous[k] = copy(student), copy(own)
            local.append(previous[k][0])
            heads.append(previous[k][1])
        sizes = [world.sizes[k] for k in active]
        w, head = mean(sizes, local), mean(sizes, heads)
        yield w


def stream(size: int, batch: int, steps: int, random: torch.Generator) -> Iterator[Tensor]:
    """Full batches of ever new permutations."""
    while True:
        order = torch.randperm(size, generator=random)
        for start in range(0, size - batch + 1, batch):
            if steps == 0:
                return
            steps -= 1
            yield order[start : start + batch]


def feddf(world: World, steps: int, batch: int, lr: float) -> Iterator[State]:
    w, proxy = world.w0, world.more["proxy"]
    for t, active in enumerate(world.active, 1):
        local = [world.train(w, world.batches(t, k)) for k in active]
        student = world.model(mean([world.sizes[k] for k in active], local))
        soft = torch.stack([judge(world, m)(proxy) for m in local]).mean(0).softmax(1)
        m = [torch.zeros_like(p) for p in student.parameters()]
        v = [torch.zeros_like(p) for p in student.parameters()]
        indices = stream(len(proxy), batch, steps, world.random("distillation", t))
        for step, index in enumerate(indices):
            rate = lr * (1 + math.cos(math.pi * step / steps)) / 2
            loss = kl(soft[index], student(proxy[index]))
            gradients = torch.autograd.grad(loss, list(student.parameters()))
            with torch.no_grad():
                for i, (p, g) in enumerate(zip(student.parameters(), gradients, strict=True)):
                    m[i] = 0.9 * m[i] + 0.1 * g
                    v[i] = 0.999 * v[i] + 0.001 * g * g
                    first, second = m[i] / (1 - 0.9 ** (step + 1)), v[i] / (1 - 0.999 ** (step + 1))
                    p.sub_(rate * first / (second.sqrt() + 1e-8))
        w = copy(student)
        yield w


def ccvr(
    world: World, w: State, virtual: int, epochs: int, batch: int, lr: float, momentum: float
) -> State:
    """The calibrated model, from the features of all clients' data put together."""
    model: Any = world.model(w).eval()
    with torch.no_grad():
        features = torch.cat([model.features(x) for x, _ in world.data])
    labels = torch.cat([y for _, y in world.data])
    random = world.random("calibration", world.rounds)
    drawn = []
    for c in range(world.classes):
        own = features[labels == c]
        values, directions = torch.linalg.eigh(torch.cov(own.T))
        noise = torch.randn(virtual, own.shape[1], generator=random, dtype=torch.float64)
        drawn.append(own.mean(0) + noise @ (directions * values.sqrt()).T)
    z, y = torch.cat(drawn), torch.arange(world.classes).repeat_interleave(virtual)
    velocity: list[Tensor] = []
    for _ in range(epochs):
        for index in torch.randperm(len(y), generator=random).split(batch):
            head = [model.outer.weight, model.outer.bias]
            g = torch.autograd.grad(F.cross_entropy(model.classify(z[index]), y[index]), head)
            velocity = (
                [momentum * v + d for v, d in zip(velocity, g, strict=True)]
                if velocity
                else list(g)
            )
            with torch.no_grad():
                for p, v in zip(head, velocity, strict=True):
                    p.sub_(lr * v)
    return copy(model)


class Features(nn.Module):
    """FedGen's generator."""

    def __init__(self, latent: int, hidden: int, relu: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(latent + 3, hidden, dtype=torch.float64)
        self.norm = nn.BatchNorm1d(hidden, dtype=torch.float64)
        self.output = nn.Linear(hidden, 5, dtype=torch.float64)
        self.relu = relu

    def forward(self, labels: Tensor, noise: Tensor) -> Tensor:
        x = torch.cat([noise, torch.eye(3, dtype=torch.float64)[labels]], 1)
        f: Tensor = self.output(F.relu(self.norm(self.hidden(x))))
        return F.relu(f) if self.relu else f


def fedgen(
    world: World, ensemble: str, sized: bool, relu: bool, weight: float, diversity: float
) -> Iterator[State]:
    """With a latent of 2, a hidden layer of 6, and on the server 4 steps of 8 at 0.001."""
    w, latent = world.w0, 2
    made: Any = Features(latent, 6, relu)
    made.load_state_dict(world.initial("feature generator", lambda: Features(latent, 6, relu)))
    adam = torch.optim.Adam(made.parameters(), lr=0.001)
    counts = [y.bincount(minlength=3).double() for _, y in world.data]
    seen: set[int] = set()
    chances = torch.ones(3, dtype=torch.float64)
    for t, active in enumerate(world.active, 1):
        local = []
        for k in active:
            random = world.random("generated features", t, k)

            def loss(
                model: Any,
                x: Tensor,
                y: Tensor,
                random: torch.Generator = random,
                shares: Tensor = chances,
            ) -> Tensor:
                labels = torch.multinomial(shares, world.batch, True, generator=random)
                noise = torch.rand(world.batch, latent, generator=random, dtype=torch.float64)
                with torch.no_grad():
                    features = made.eval()(labels, noise)
                own: Tensor = F.cross_entropy(model(x), y)
                return own + weight * F.cross_entropy(model.classify(features), labels)

            local.append(world.train(w, world.batches(t, k), loss if t > 1 else None))
        seen |= set(active)
        n = torch.tensor([float(world.sizes[k]) for k in active], dtype=torch.float64)
        held = torch.stack([counts[k] for k in active])
        here = (n[:, None] * held if sized else held).sum(0)
        chances = here if sized else torch.stack([counts[k] for k in sorted(seen)]).sum(0)
        heads: list[Any] = [world.model(m).eval().requires_grad_(False) for m in local]
        random = world.random("feature generator", t)
        made.train()
        for _ in range(4):
            labels = torch.multinomial(here, 8, True, generator=random)
            noise = torch.rand(8, latent, generator=random, dtype=torch.float64)
            f = made(labels, noise)
            logits = torch.stack([head.classify(f) for head in heads])
            if ensemble == "logits":
                total = F.cross_entropy(logits.mean(0), labels)
            elif ensemble == "sized-logits":
                total = F.cross_entropy((n[:, None, None] * logits).sum(0) / n.sum(), labels)
            else:
                each = torch.stack([F.cross_entropy(a, labels, reduction="none") for a in logits])
                share = n[:, None].expand(-1, 3) if ensemble == "sizes" else held
                share = share / share.sum(0).clamp_min(1)
                total = (each * share[:, labels]).sum(0).mean()
            pairs = [
                ((noise[i] - noise[j]) ** 2).mean() * (f[i] - f[j]).abs().mean()
                for i in range(8)
                for j in range(8)
            ]
            adam.zero_grad()
            (total + diversity * torch.exp(-torch.stack(pairs).mean())).backward()
            adam.step()
        w = mean([world.sizes[k] for k in active], local)
        yield w
