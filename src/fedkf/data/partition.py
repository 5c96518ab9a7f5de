"""How samples are divided over clients."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError

Indices = NDArray[np.int64]
BY_CLASSES = ("dirichlet", "dirichlet-balanced", "classes")
"""Those that look at labels, which must be classes."""


@dataclass(frozen=True)
class Division:
    """How to divide: what `data.partition` names, and what that needs."""

    name: str
    clients: int
    alpha: float = 0.1
    classes_per_client: int = 2
    min_samples: int = 1


def partition(
    how: Division,
    labels: NDArray[Any],
    random: np.random.Generator,
    owners: Indices | None = None,
) -> list[Indices]:
    """Indices of each client's samples. Every sample goes to exactly one client.

    >>> parts = partition(Division("iid", 2), np.zeros(10, int), np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [5, 5]
    """
    if how.name == "natural":
        if owners is None:
            raise UserError(
                "data.partition is natural but the source does not say who holds what; it needs "
                "client folders, an array `client` in the .npz, or a Dataset per client"
            )
        return [np.flatnonzero(owners == k) for k in range(how.clients)]
    clients, least = how.clients, how.min_samples
    if clients > len(labels):
        raise UserError(f"data.clients is {clients}, more than the {len(labels)} samples")
    if clients * least > len(labels):
        raise UserError(
            f"data.min_samples is {least}, too many for {clients} clients and "
            f"{len(labels)} samples; at most {len(labels) // clients}"
        )
    if how.name == "iid":
        parts = cut(random.permutation(len(labels)), np.full(clients, 1 / clients))
    elif how.name == "quantity":
        shares = random.dirichlet(np.full(clients, how.alpha))
        parts = cut(random.permutation(len(labels)), shares)
    elif how.name == "dirichlet":
        parts = dirichlet(labels, clients, how.alpha, random)
    elif how.name == "dirichlet-balanced":
        parts = dirichlet_balanced(labels, clients, how.alpha, random)
    else:
        parts = by_classes(labels, clients, how.classes_per_client, random)
    return top_up([np.sort(part) for part in parts], least, random)


def cut(members: Indices, shares: NDArray[np.float64]) -> list[Indices]:
    """Consecutive pieces of the given shares."""
    return np.split(members, np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64))


def by_classes(
    labels: Indices, clients: int, each: int, random: np.random.Generator
) -> list[Indices]:
    """Every client holds samples of `each` classes; a class is divided evenly over its holders."""
    classes = np.unique(labels)
    if each > len(classes):
        raise UserError(f"data.classes_per_client is {each} but there are {len(classes)} classes")
    if each * clients < len(classes):
        raise UserError(
            f"data.classes_per_client is {each}: {clients} clients would leave out "
            f"{len(classes) - each * clients} of the {len(classes)} classes"
        )
    # Rows of a Latin square: client k takes the classes k·each, …, so all are dealt alike.
    order = random.permutation(len(classes))
    places = (np.arange(clients)[:, None] * each + np.arange(each)) % len(classes)
    held = order[random.permutation(places)]
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for index, label in enumerate(classes):
        holders = np.flatnonzero((held == index).any(1))
        members = random.permutation(np.flatnonzero(labels == label))
        pieces = cut(members, np.full(len(holders), 1 / len(holders)))
        for holder, piece in zip(holders, pieces, strict=True):
            parts[holder].append(piece)
    return [np.concatenate(part) for part in parts]


def dirichlet(
    labels: Indices, clients: int, alpha: float, random: np.random.Generator
) -> list[Indices]:
    """Each class is divided over all clients by one draw from Dir(α)."""
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        shares = random.dirichlet(np.full(clients, alpha))
        for part, piece in zip(parts, cut(members, shares), strict=True):
            part.append(piece)
    return [np.concatenate(part) for part in parts]


def dirichlet_balanced(
    labels: Indices, clients: int, alpha: float, random: np.random.Generator
) -> list[Indices]:
    """The released program's division: every client leads a class before any leads a second one.

    Clients form groups of as many as there are classes, the last one of those that are left, and
    every class is divided over the groups in proportion. Within a group a class is divided by a
    draw from Dir(α) of which the largest share goes to a client that has not led a class yet. The
    released program repeats the draw until that is so; as all clients are alike before the draw,
    moving the largest share to such a client at random has the same distribution.
    """
    classes = np.unique(labels)
    groups = np.split(np.arange(clients), np.arange(len(classes), clients, len(classes)))
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
    return [np.concatenate(part) for part in parts]


def top_up(parts: list[Indices], least: int, random: np.random.Generator) -> list[Indices]:
    """Let every client below `least` samples take what it lacks from the largest one."""
    largest = [(-len(part), k) for k, part in enumerate(parts)]
    heapq.heapify(largest)
    for k in range(len(parts)):
        while len(parts[k]) < least:
            size, giver = heapq.heappop(largest)
            if -size != len(parts[giver]):
                continue  # an entry from before it took or gave
            order = random.permutation(parts[giver])
            count = min(least - len(parts[k]), len(order) - least)
            parts[k] = np.sort(np.concatenate([parts[k], order[:count]]))
            parts[giver] = np.sort(order[count:])
            heapq.heappush(largest, (-len(parts[giver]), giver))
    return parts
