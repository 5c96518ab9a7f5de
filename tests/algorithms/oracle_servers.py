"""Oracles of the rules on the server: what becomes of the clients' models.

Plain PyTorch and NumPy on a `World`. Each yields the global model after every round.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from world import State, World, mean, norm

Array = NDArray[np.float64]


def local_models(world: World, w: State, t: int, active: Sequence[int]) -> list[State]:
    return [world.train(w, world.batches(t, k)) for k in active]


def with_buffers(world: World, new: State, sizes: Sequence[int], local: Sequence[State]) -> State:
    """Learned tensors as given, all others as FedAvg has them."""
    average, learned = mean(sizes, local), world.learned()
    return {name: new[name] if name in learned else average[name] for name in average}


def gathered_steps(steps: int, momentum: float) -> float:
    """How many gradients, in units of η, a unit gradient in every step moves the model by."""
    velocity, total = 0.0, 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1
        total += velocity
    return total


def fedavg(world: World) -> Iterator[State]:
    w = world.w0
    for t, active in enumerate(world.active, 1):
        w = mean([world.sizes[k] for k in active], local_models(world, w, t, active))
        yield w


def fednova(world: World) -> Iterator[State]:
    w = world.w0
    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        sizes = [world.sizes[k] for k in active]
        p = [n / sum(sizes) for n in sizes]
        tau = [gathered_steps(len(world.batches(t, k)), world.momentum) for k in active]
        together = sum(a * b for a, b in zip(p, tau, strict=True))
        new = {}
        for name in world.learned():
            parts = [p[i] * (w[name] - local[i][name]) / tau[i] for i in range(len(active))]
            new[name] = w[name] - together * torch.stack(parts).sum(0)
        w = with_buffers(world, new, sizes, local)
        yield w


def server_optimizer(
    world: World, kind: str, lr: float, beta: float, beta2: float = 0.99, tau: float = 0.001
) -> Iterator[State]:
    """FedAvgM, FedAdam and FedYogi."""
    w, learned = world.w0, world.learned()
    m = {name: torch.zeros_like(w[name]) for name in learned}
    v = {name: torch.full_like(w[name], tau**2) for name in learned}
    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        sizes = [world.sizes[k] for k in active]
        average, new = mean(sizes, local), {}
        for name in learned:
            d = average[name] - w[name]
            if kind == "avgm":
                m[name] = beta * m[name] + d
                new[name] = w[name] + lr * m[name]
                continue
            m[name] = beta * m[name] + (1 - beta) * d
            if kind == "adam":
                v[name] = beta2 * v[name] + (1 - beta2) * d**2
            else:
                v[name] = v[name] - (1 - beta2) * d**2 * torch.sign(v[name] - d**2)
            new[name] = w[name] + lr * m[name] / (torch.sqrt(v[name]) + tau)
        w = with_buffers(world, new, sizes, local)
        yield w


def mifa(world: World, lr: float) -> Iterator[State]:
    w, learned = world.w0, world.learned()
    table = [{name: torch.zeros_like(w[name]) for name in learned} for _ in world.sizes]
    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        for k, model in zip(active, local, strict=True):
            table[k] = {name: w[name] - model[name] for name in learned}
        new = {
            name: w[name] - lr * torch.stack([row[name] for row in table]).sum(0) / world.clients
            for name in learned
        }
        w = with_buffers(world, new, [world.sizes[k] for k in active], local)
        yield w


def qffl(world: World, q: float) -> Iterator[State]:
    w, learned = world.w0, world.learned()
    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        losses = [world.whole_loss(w, k) for k in active]
        gradients = [
            {name: (w[name] - model[name]) / world.lr for name in learned} for model in local
        ]
        h = sum(
            q * f ** (q - 1) * norm(g, learned) ** 2 + f**q / world.lr
            for f, g in zip(losses, gradients, strict=True)
        )
        new = {
            name: w[name]
            - torch.stack([f**q * g[name] for f, g in zip(losses, gradients, strict=True)]).sum(0)
            / h
            for name in learned
        }
        w = with_buffers(world, new, [world.sizes[k] for k in active], local)
        yield w


def nearest_in_simplex(point: Array) -> Array:
    """By bisection for the threshold that makes the positive parts add up to 1."""
    low, high = float(point.min()) - 1, float(point.max())
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(point - middle, 0).sum() > 1:
            low = middle
        else:
            high = middle
    return np.asarray(np.maximum(point - high, 0))


def afl(world: World, rate: float, ascent: str, readout: str) -> Iterator[State]:
    w, iterates = world.w0, []
    mixture = np.array(world.sizes) / sum(world.sizes)
    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        estimate = np.zeros(world.clients)
        for k in active:
            estimate[k] = world.whole_loss(w, k) * world.clients / len(active)
        shares = [float(mixture[k]) for k in active]
        w = mean(shares if sum(shares) else [1.0] * len(active), local)
        if ascent == "mirror":
            mixture = mixture * np.exp(rate * estimate)
            mixture = mixture / mixture.sum()
        else:
            mixture = nearest_in_simplex(mixture + rate * estimate)
        iterates.append(w)
        yield mean([1] * t, iterates[::-1]) if readout == "mean" else w


def least_norm(products: Array, centre: Array, epsilon: float) -> Array:
    """λ by trying every way in which weights may lie at a bound or be free."""
    low, high = np.maximum(centre - epsilon, 0), np.minimum(centre + epsilon, 1)
    count, best, found = len(centre), np.inf, centre
    for where in itertools.product((-1, 0, 1), repeat=count):
        weights = np.where(np.array(where) < 0, low, high)
        free = [i for i in range(count) if where[i] == 0]
        rest = 1 - sum(weights[i] for i in range(count) if i not in free)
        if free:
            fixed = [i for i in range(count) if i not in free]
            system = np.zeros((len(free) + 1, len(free) + 1))
            system[:-1, :-1] = products[np.ix_(free, free)]
            system[-1, :-1] = system[:-1, -1] = 1
            right = np.append(-products[np.ix_(free, fixed)] @ weights[fixed], rest)
            weights[free] = np.linalg.lstsq(system, right, rcond=None)[0][:-1]
        inside = bool(np.all(weights >= low - 1e-13) and np.all(weights <= high + 1e-13))
        if inside and abs(weights.sum() - 1) < 1e-12:
            value = float(weights @ products @ weights)
            if value < best - 1e-15:
                best, found = value, weights
    return found


def fedmgda(world: World, epsilon: float, lr: float, normalise: bool) -> Iterator[State]:
    w, learned = world.w0, world.learned()

    def flat(state: State) -> Tensor:
        return torch.cat([state[name].flatten() for name in learned])

    for t, active in enumerate(world.active, 1):
        local = local_models(world, w, t, active)
        sizes = [world.sizes[k] for k in active]
        updates = torch.stack([flat(w) - flat(model) for model in local])
        if normalise:
            updates = updates / updates.norm(dim=1, keepdim=True)
        products: Array = (updates @ updates.T).numpy()
        weights = least_norm(products, np.array(sizes) / sum(sizes), epsilon)
        moved = flat(w) - lr * (torch.from_numpy(weights) @ updates)
        new, at = {}, 0
        for name in learned:
            new[name] = moved[at : at + w[name].numel()].view(w[name].shape)
            at += w[name].numel()
        w = with_buffers(world, new, sizes, local)
        yield w
