"""How samples are divided over clients."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError

Indices = NDArray[np.int64]


def partition(
    name: str,
    labels: NDArray[np.int64],
    clients: int,
    alpha: float,
    min_samples: int,
    random: np.random.Generator,
) -> list[Indices]:
    """Indices of each client's samples. Every sample goes to exactly one client.

    >>> parts = partition("iid", np.zeros(10, int), 2, 1.0, 1, np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [5, 5]
    """
    if clients > len(labels):
        raise UserError(f"data.clients is {clients}, more than the {len(labels)} samples")
    if clients * min_samples > len(labels):
        raise UserError(
            f"data.min_samples is {min_samples}, too many for {clients} clients and "
            f"{len(labels)} samples; at most {len(labels) // clients}"
        )
    if name == "iid":
        parts = [np.sort(p) for p in np.array_split(random.permutation(len(labels)), clients)]
    elif name == "dirichlet":
        parts = dirichlet(labels, clients, alpha, random)
    else:
        parts = dirichlet_balanced(labels, clients, alpha, random)
    return top_up(parts, min_samples, random)


def dirichlet(
    labels: NDArray[np.int64], clients: int, alpha: float, random: np.random.Generator
) -> list[Indices]:
    """Each class is divided over all clients by one draw from Dir(α)."""
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        shares = random.dirichlet(np.full(clients, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for part, piece in zip(parts, np.split(members, cuts), strict=True):
            part.append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def dirichlet_balanced(
    labels: NDArray[np.int64], clients: int, alpha: float, random: np.random.Generator
) -> list[Indices]:
    """The released program's division: every client leads a class before any leads a second one.

    Clients form groups of at most as many as there are classes, and every class is divided over the
    groups in proportion. Within a group a class is divided by a draw from Dir(α) of which the
    largest share goes to a client that has not led a class yet. The released program repeats the
    draw until that is so; as all clients are alike before the draw, moving the largest share to
    such a client at random has the same distribution.
    """
    classes = np.unique(labels)
    groups = np.array_split(np.arange(clients), math.ceil(clients / len(classes)))
    leaders: list[set[int]] = [set() for _ in groups]
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in classes:
        members = random.permutation(np.flatnonzero(labels == label))
        cuts = np.cumsum([len(g) for g in groups])[:-1] * len(members) // clients
        for group, led, own in zip(groups, leaders, np.split(members, cuts), strict=True):
            if len(led) == len(group):
                led.clear()
            shares = random.dirichlet(np.full(len(group), alpha))
            leader = int(random.choice([k for k in range(len(group)) if k not in led]))
            largest = int(shares.argmax())
            shares[[leader, largest]] = shares[[largest, leader]]
            led.add(leader)
            counts = np.floor(shares * len(own)).astype(np.int64)
            counts[random.integers(len(group))] += len(own) - counts.sum()
            for client, piece in zip(group, np.split(own, np.cumsum(counts)[:-1]), strict=True):
                parts[client].append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def top_up(parts: list[Indices], least: int, random: np.random.Generator) -> list[Indices]:
    """Let every client below `least` samples take what it lacks from the largest one."""
    for k in range(len(parts)):
        while len(parts[k]) < least:
            giver = max(range(len(parts)), key=lambda j: len(parts[j]))
            order = random.permutation(parts[giver])
            count = min(least - len(parts[k]), len(order) - least)
            parts[k] = np.sort(np.concatenate([parts[k], order[:count]]))
            parts[giver] = np.sort(order[count:])
    return parts
