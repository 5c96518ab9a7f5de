"""Provenance: where a run comes from, and whether it is the same when it goes on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf.core.digests import file_digest
from fedkf.core.errors import UserError
from fedkf.data import proxy
from fedkf.data.federated import FederatedData
from fedkf.runs.load import load
from fedkf.runs.store import RunFolder

if TYPE_CHECKING:
    import torch

ORIGINS = {
    "data_sha256": "data",
    "holdout_sha256": "data of the sites held out",
    "proxy_sha256": "proxy data",
    "generator_sha256": "generator in generator.start",
    "trace_sha256": "trace in federation.availability",
}
"""What must be the same when a run goes on, and its name in a sentence."""


def refuse_other_origin(run: RunFolder, origin: dict[str, Any]) -> dict[str, Any]:
    """Where the run began, if what it is to go on with is the same; else a sentence."""
    began = run.provenance() or origin
    for key, what in ORIGINS.items():
        if began.get(key) != origin.get(key):
            raise UserError(f"the {what} is not the one that the run in {run.path} began with")
    return began


def provenance(
    data: FederatedData | None, stand_in: torch.Tensor | None = None, generator: str | None = None
) -> dict[str, Any]:
    """What a stranger needs to know to repeat the run exactly."""
    versions = {"python": platform.python_version()}
    for package in ("fedkf", "torch", "numpy", "safetensors"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "versions": versions,
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "load": round(load(), 2),
        },
        "revision": revision(),
        **({} if data is None else {"data_sha256": data.digest()}),
        **({} if stand_in is None else {"proxy_sha256": proxy.digest(stand_in)}),
        **({} if generator is None else {"generator_sha256": file_digest(generator)}),
    }


def revision() -> str | None:
    """The code's git revision, where it runs from a checkout of its own."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    with contextlib.suppress(OSError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or None
    return None
