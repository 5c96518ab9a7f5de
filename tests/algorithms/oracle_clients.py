"""Oracles of the rules on the clients: what a client's steps go down.

Plain PyTorch on a `World`. Each yields the global model after every round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from oracle_servers import gathered_steps
from torch import Tensor, nn
from world import Batch, State, World, copy, mean


def towards(world: World, w: State, average: State, share: float) -> State:
    """What is learned goes a share of the way to the clients' mean, all else is the mean's."""
    learned = world.learned()
    return {n: (1 - share) * w[n] + share * v if n in learned else v for n, v in average.items()}


def fedprox(world: World, mu: float) -> Iterator[State]:
    w = world.w0
    for t, active in enumerate(world.active, 1):
        start = w

        def pull(model: nn.Module, start: State = start) -> list[Tensor]:
            return [mu * (p.detach() - start[name]) for name, p in model.named_parameters()]

        local = [world.train(w, world.batches(t, k), add=pull) for k in active]
        w = mean([world.sizes[k] for k in active], local)
        yield w


def scaffold(world: World, lr: float) -> Iterator[State]:
    w, learned = world.w0, world.learned()
    c = {name: torch.zeros_like(w[name]) for name in learned}
    own = [dict(c) for _ in world.sizes]
    for t, active in enumerate(world.active, 1):
        local, changes = [], []
        for k in active:
            batches = world.batches(t, k)
            drift = [c[name] - own[k][name] for name in learned]
            y = world.train(w, batches, add=lambda model, drift=drift: drift)  # type: ignore[misc]
            length = world.lr * gathered_steps(len(batches), world.momentum)
            new = {n: own[k][n] - c[n] + (w[n] - y[n]) / length for n in learned}
            changes.append({n: new[n] - own[k][n] for n in learned})
            own[k] = new
            local.append(y)
        average, change = mean([1] * len(local), local), mean([1] * len(local), changes)
        c = {n: c[n] + len(active) / world.clients * change[n] for n in learned}
        w = towards(world, w, average, lr)
        yield w


def loss_at(world: World, model: nn.Module, at: State, batch: Batch) -> Tensor:
    """The loss with other parameters, which it can be differentiated by."""

    def call(x: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(model, at, (x,))
        return out

    return world.loss(call, *batch)  # type: ignore[arg-type]


def hold_statistics(model: nn.Module, still: bool) -> None:
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.track_running_stats = not still


def gathered(momentum: float, velocity: list[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
    """SGD's velocity after these gradients; the first are taken as they are."""
    if not velocity:
        return list(gradients)
    return [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]


def perfedavg(world: World, alpha: float, exact: bool) -> Iterator[State]:
    """`exact`: with the second derivative on a third batch; otherwise without it."""
    w = world.w0
    purposes = [
        "batches",
        "batches of the personal model",
        "batches of the second derivative",
    ]
    for t, active in enumerate(world.active, 1):
        local = []
        for k in active:
            model = world.model(w)
            parameters = dict(model.named_parameters())
            velocity: list[Tensor] = []
            for d, d1, d2 in zip(*(world.batches(t, k, p) for p in purposes), strict=True):
                inner = torch.autograd.grad(world.loss(model, *d), list(parameters.values()))
                hold_statistics(model, True)
                ahead = {
                    name: (p.detach() - alpha * g).requires_grad_()
                    for (name, p), g in zip(parameters.items(), inner, strict=True)
                }
                outer = torch.autograd.grad(loss_at(world, model, ahead, d1), list(ahead.values()))
                if exact:
                    first = torch.autograd.grad(
                        world.loss(model, *d2), list(parameters.values()), create_graph=True
                    )
                    product = torch.autograd.grad(
                        first, list(parameters.values()), grad_outputs=outer
                    )
                    outer = tuple(v - alpha * h for v, h in zip(outer, product, strict=True))
                hold_statistics(model, False)
                velocity = gathered(world.momentum, velocity, outer)
                with torch.no_grad():
                    for p, v in zip(parameters.values(), velocity, strict=True):
                        p.sub_(world.lr * v)
            local.append(copy(model))
        w = mean([1] * len(local), local)
        yield w


def personal_after_a_step(world: World, w: State, t: int, alpha: float) -> list[State]:
    """Every client's model after one step on the first batch of its training data."""
    found = []
    for k in range(world.clients):
        model = world.model(w)
        batch = world.batches(t, k, "personal step")[0]
        gradients = torch.autograd.grad(world.loss(model, *batch), list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p.sub_(alpha * g)
        found.append(copy(model))
    return found


def pfedme_round(
    world: World, w: State, t: int, k: int, penalty: float, steps: int, rate: float
) -> tuple[State, State]:
    """A client's w_k and θ after its turn."""
    theta = world.model(w)
    names = [name for name, _ in theta.named_parameters()]
    own = {name: w[name].clone() for name in names}
    velocity: list[Tensor] = []
    for x, y in world.batches(t, k):
        for _ in range(steps):
            parameters = list(theta.parameters())
            g = torch.autograd.grad(world.loss(theta, x, y), parameters)
            with torch.no_grad():
                pulled = [
                    a + penalty * (p - own[name])
                    for a, p, name in zip(g, parameters, names, strict=True)
                ]
                velocity = gathered(world.momentum, velocity, pulled)
                for p, v in zip(parameters, velocity, strict=True):
                    p.sub_(rate * v)
        moved = dict(theta.named_parameters())
        own = {name: v - world.lr * penalty * (v - moved[name].detach()) for name, v in own.items()}
    made = copy(theta)
    return {**made, **own}, made


def pfedme(
    world: World, penalty: float, steps: int, rate: float, beta: float
) -> Iterator[tuple[State, dict[int, State]]]:
    """The global model and the personal ones."""
    w = world.w0
    personal: dict[int, State] = {}
    for t, active in enumerate(world.active, 1):
        turn = partial(pfedme_round, world, w, t, penalty=penalty, steps=steps, rate=rate)
        local = []
        for k in active:
            sent, personal[k] = turn(k)
            local.append(sent)
        average = mean([1] * len(local), local)
        w = towards(world, w, average, beta)
        yield w, dict(personal)


def alone(world: World) -> Iterator[dict[int, State]]:
    """Every client's own model; those who had no turn yet hold w⁰."""
    own = dict.fromkeys(range(world.clients), world.w0)
    for t, active in enumerate(world.active, 1):
        own |= {k: world.train(own[k], world.batches(t, k)) for k in active}
        yield dict(own)


def accuracies(world: World, models: Sequence[State]) -> list[float]:
    """Of each client's test samples under the model that is meant for it."""
    found = []
    for (x, y), w in zip(world.tests, models, strict=True):
        with torch.no_grad():
            hits = world.model(w).eval()(x).argmax(1) == y
        found.append(float(hits.double().mean()))
    return found
