"""Devices other than the CPU: whether one is there, and what it must be told to repeat itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedkf.core.errors import UserError


def prepare(device: str) -> None:
    """What CUDA reads when it starts, so that it must be said before."""
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def check_device(device: str) -> None:
    """Refuse a device that PyTorch does not find."""
    if device != "cpu":
        # Asks the driver without starting CUDA here, which would keep workers from forking.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        kind = torch.device(device).type
        if not torch.get_device_module(kind).is_available():
            raise UserError(f"engine.device is {device!r} but PyTorch finds no {kind.upper()} here")


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
