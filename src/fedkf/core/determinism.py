"""What a device other than the CPU must be told, so that the same work gives the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def prepare(device: str) -> None:
    """What CUDA reads when it starts, so that it must be said before."""
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def exact(device: str) -> Iterator[None]:
    """On a GPU choose the kernels that repeat themselves; what was set before comes back after.

    An operation that has none warns and goes on. The CPU needs nothing of this.
    """
    if device == "cpu":
        yield
        return
    enabled = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    tries = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
        torch.backends.cudnn.benchmark = tries
