"""Oracles of FedKF, FedKF- and FedKF with its generator on the server, after Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from oracle_clients import gathered, hold_statistics
from oracle_teachers import kl
from torch import Tensor, nn
from torch.nn import functional as F
from world import State, World, copy, mean

NOISE, BETA = 3, 0.01


class Generator(nn.Sequential):
    """Noise of three numbers to the four inputs of the tiny network."""

    def __init__(self) -> None:
        super().__init__(
            # A bias before a batch norm has no gradient but rounding, which Adam blows up.
            nn.Linear(NOISE, 6, bias=False, dtype=torch.float64),
            nn.BatchNorm1d(6, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(6, 4, dtype=torch.float64),
        )


@dataclass(frozen=True)
class Rules:
    """Which FedKF."""

    gamma: float = 0.7
    lambda1: float = 0.3
    lambda2: float = 0.2
    oca: bool = True
    released: bool = False
    adversarial: bool = False
    scope: str = "seen"
    server_steps: int = 0
    """Of a generator on the server; without any, every client trains its own."""

    def generator_loss(self, teacher: Any, x: Tensor) -> Tensor:
        f = teacher.features(x)
        p = teacher.classify(f).softmax(1)
        one_hot, average = -p.max(1).values.log().mean(), p.mean(0)
        entropy, activation = (average * average.log()).sum(), -f.abs().sum(1).mean()
        if self.released:
            entropy = 1 + entropy / math.log(p.shape[1])
            activation = -f.abs().mean()
        loss: Tensor = entropy + self.lambda1 * one_hot + self.lambda2 * activation
        return loss


class Run:
    """Server and clients of Algorithm 1."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.world, self.rules = world, rules
        self.theta = world.initial("generator", Generator)
        self.generators: dict[int, tuple[Any, Any]] = {}
        self.slots: dict[int, State] = {}
        self.overall: list[State] = []

    def models(self) -> Iterator[State]:
        world, w = self.world, self.world.w0
        teacher = w
        for t, active in enumerate(world.active, 1):
            if self.rules.server_steps and not self.plain(t):
                self.server_generator(t, teacher if self.rules.oca else w)
            local = [self.client(t, k, w, teacher if self.rules.oca else w) for k in active]
            self.slots.update(zip(active, local, strict=True))
            w = self.moved(mean([world.sizes[k] for k in active], local), len(active))
            held = dict(self.slots)
            if self.rules.scope == "all":
                held = {k: self.slots.get(k, world.w0) for k in range(world.clients)}
            largest = max(self.slots, key=lambda k: world.sizes[k])
            teacher = mean([world.sizes[k] for k in held], list(held.values()))
            teacher |= {n: v for n, v in self.slots[largest].items() if not v.is_floating_point()}
            self.overall.append(teacher)
            yield w

    def moved(self, aca: State, active: int) -> State:
        """What the server makes of the active clients' mean before T1 hears of them."""
        return aca

    def plain(self, t: int) -> bool:
        return self.rules.released and t == 1

    def generator(self, owner: int) -> tuple[Any, Any]:
        if owner not in self.generators:
            made = Generator()
            made.load_state_dict(self.theta)
            self.generators[owner] = made, torch.optim.Adam(made.parameters(), lr=BETA)
        return self.generators[owner]

    def server_generator(self, t: int, taught: State) -> None:
        made, adam = self.generator(-1)
        teacher = self.world.model(taught).eval().requires_grad_(False)
        random = self.world.random("generator noise", t)
        for _ in range(self.rules.server_steps):
            z = torch.randn(self.world.batch, NOISE, generator=random, dtype=torch.float64)
            adam.zero_grad()
            self.rules.generator_loss(teacher, made(z)).backward()
            adam.step()

    def client(self, t: int, k: int, w: State, taught: State) -> State:
        world, rules = self.world, self.rules
        if self.plain(t):
            return world.train(w, world.batches(t, k))
        student: Any = world.model(w)
        teacher: Any = world.model(taught).eval().requires_grad_(False)
        fixed = rules.server_steps > 0
        made, adam = self.generator(-1 if fixed else k)
        kept = copy(made)
        random, velocity = world.random("generator noise", t, k), list[Tensor]()

        def fake() -> Tensor:
            z = torch.randn(world.batch, NOISE, generator=random, dtype=torch.float64)
            out: Tensor = made(z)
            return out

        def learn(loss: Tensor) -> None:
            adam.zero_grad()
            loss.backward()
            adam.step()

        for x, y in world.batches(t, k):
            seen = fake()
            if not rules.released and not fixed:
                learn(rules.generator_loss(teacher, seen))
                seen = fake()
            soft = teacher(seen).softmax(1).detach()
            hold_statistics(student, True)
            distilled = kl(soft, student(seen.detach()))
            hold_statistics(student, False)
            loss = F.cross_entropy(student(x), y) + rules.gamma * distilled
            gradients = torch.autograd.grad(loss, list(student.parameters()))
            velocity = gathered(world.momentum, velocity, gradients)
            with torch.no_grad():
                for p, v in zip(student.parameters(), velocity, strict=True):
                    p.sub_(world.lr * v)
            if rules.released and not fixed:
                cost = rules.generator_loss(teacher, seen)
                if rules.adversarial:
                    hold_statistics(student, True)
                    cost = cost - rules.gamma * kl(soft, student(seen))
                    hold_statistics(student, False)
                learn(cost)
        if fixed:
            made.load_state_dict(kept)  # what a client does to the server's generator stays there
        return copy(student)


class PlusRun(Run):
    """FedKF+ with generated samples only: a pool a turn, and the not-true loss on own samples."""

    def __init__(self, world: World, rules: Rules, beta: float, pool: int) -> None:
        super().__init__(world, rules)
        self.beta, self.pool = beta, pool

    def moved(self, aca: State, active: int) -> State:
        """0.7 times as far again as T1's mean went in the round before; less, or not at all, where
        fewer than four fifths of the clients are away, down to a half."""
        away = 1 - active / self.world.clients
        share = 0.7 * min(1, max(0, (away - 0.5) / 0.3))
        if len(self.overall) < 2:
            return aca
        (old, new), learned = self.overall[-2:], dict(self.world.model(aca).named_parameters())
        return {n: v + share * (new[n] - old[n]) if n in learned else v for n, v in aca.items()}

    def client(self, t: int, k: int, w: State, taught: State) -> State:
        world, rules = self.world, self.rules
        if self.plain(t):
            return world.train(w, world.batches(t, k))
        student: Any = world.model(w)
        teacher: Any = world.model(taught).eval().requires_grad_(False)
        inputs, soft = self.filled(t, k, teacher)
        velocity, served = list[Tensor](), len(inputs) // world.batch
        labels = world.data[k][1].tolist()
        alike = sum(a == b for a in labels for b in labels) / len(labels) ** 2
        for number, (x, y) in enumerate(world.batches(t, k)):
            span = slice(number % served * world.batch, (number % served + 1) * world.batch)
            logits = student(x)
            hold_statistics(student, True)
            loss = rules.gamma * (1 + 3 * alike) * kl(soft[span], student(inputs[span]))
            hold_statistics(student, False)
            loss = loss + F.cross_entropy(logits, y)
            # The true class is left out by a logit that makes its probability nothing.
            gone = F.one_hot(y, world.classes) * -1e9
            loss = loss + self.beta * (1 - alike) * kl(
                (teacher(x) + gone).softmax(1), logits + gone
            )
            gradients = torch.autograd.grad(loss, list(student.parameters()))
            velocity = gathered(world.momentum, velocity, gradients)
            with torch.no_grad():
                for p, v in zip(student.parameters(), velocity, strict=True):
                    p.sub_(world.lr * v)
        return copy(student)

    def filled(self, t: int, k: int, teacher: Any) -> tuple[Tensor, Tensor]:
        """A step of the generator for two of the model's, five times as long, then the pool."""
        made, adam = self.generator(k)
        adam.param_groups[0]["lr"] = 5 * BETA
        random = self.world.random("generator noise", t, k)

        def noise(count: int) -> Tensor:
            return torch.randn(count, NOISE, generator=random, dtype=torch.float64)

        for _ in range(0, len(self.world.batches(t, k)), 2):
            adam.zero_grad()
            self.rules.generator_loss(teacher, made(noise(self.world.batch))).backward()
            adam.step()
        size = min(self.pool, len(self.world.batches(t, k)) * self.world.batch)
        order = torch.randperm(size, generator=self.world.random("pool", t, k))
        inputs = made(noise(size)).detach()[order]
        return inputs, teacher(inputs).softmax(1)
