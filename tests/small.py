"""The smallest run in which an algorithm does all that it does."""

from __future__ import annotations

from typing import Any

from fedkf import algorithms

SMALL: dict[str, Any] = {
    "data.limit": 12,
    "data.clients": 4,
    "data.min_samples": 5,
    "federation.rounds": 2,
    "federation.fraction": 0.75,
    "federation.local_epochs": 1,
    "federation.steps": 2,
    "generator.width": 4,
    "generator.noise": 8,
}


def needed(name: str) -> dict[str, Any]:
    """What an algorithm cannot do without, and hyperparameters that spare it work."""
    kind = algorithms.get(name)
    options = {f"algorithm.{key}": value for key, value in kind.tiny.items()}
    return {**options, **({"data.proxy": 0.1} if kind.needs_proxy_data else {})}


def small(name: str) -> dict[str, Any]:
    """Settings of digits for an algorithm."""
    return {**SMALL, **needed(name), "algorithm.name": name}
