"""Health: whether this machine has what runs need: packages, a device, data, disk, locks."""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import multiprocessing
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from fedkf.core.extras import install
from fedkf.data.catalog import find
from fedkf.data.files import cache_folder, places
from fedkf.data.public import DATASETS

NEEDED = ("torch", "numpy", "safetensors", "pydantic", "matplotlib", "scikit-learn", "pillow")
EXTRAS = {
    "dashboard": ("starlette", "uvicorn"),
    "flower": ("flwr", "cryptography"),
    "frame": ("pandas",),
    "mlflow": ("mlflow",),
    "onnx": ("onnx", "onnxscript"),
    "search": ("optuna",),
    "tables": ("pyarrow",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
}
SPARE = 1_000_000_000
"""Bytes of free disk below which a run of some size may not end."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, whether runs can do with it, and what was found."""

    what: str
    well: bool
    found: str


def examine(folder: Path) -> Iterator[Finding]:
    """Everything, one after the other; runs would be written to `folder`."""
    yield Finding("python", True, f"{platform.python_version()} on {platform.system()}")
    yield Finding("packages", True, ", ".join(f"{n} {version(n)}" for n in NEEDED))
    for extra, modules in EXTRAS.items():
        there = all(importlib.util.find_spec(module) for module in modules)
        yield Finding(f"extra {extra}", True, "here" if there else f"not here: {install(extra)}")
    yield Finding("device", True, device())
    yield data()
    yield attempt("cache", lambda: writable(cache_folder()))
    yield attempt("disk", lambda: disk(folder))
    yield attempt("locks", lambda: locks(folder))
    yield attempt("fork", forks)


def attempt(what: str, look: Callable[[], str]) -> Finding:
    """What was found, or what went wrong."""
    try:
        return Finding(what, True, look())
    except (OSError, RuntimeError) as error:
        return Finding(what, False, str(error))


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not here)"


def device() -> str:
    """Where models can be trained."""
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
        return f"cuda: {', '.join(names)}; cpu with {os.cpu_count()} cores"
    return f"cpu with {os.cpu_count()} cores; no CUDA"


def data() -> Finding:
    """The data sets by name that are here, and where FEDKF_DATA points."""
    wrong = [str(place) for place in places() if not place.is_dir()]
    if wrong:
        return Finding("data", False, f"FEDKF_DATA names {', '.join(wrong)}, which is no folder")
    here = ["digits", *(name for name, dataset in DATASETS.items() if find(dataset))]
    where = f"; FEDKF_DATA is {', '.join(map(str, places()))}" if places() else ""
    return Finding("data", True, f"{', '.join(here)}{where} (`fedkf data list` says more)")


def nearest_there(folder: Path) -> Path:
    """The folder, or the one above it that exists already."""
    folder = folder.absolute()
    return folder if folder.is_dir() else nearest_there(folder.parent)


def writable(folder: Path) -> str:
    with tempfile.NamedTemporaryFile(dir=nearest_there(folder)):
        return f"{folder} can be written"


def disk(folder: Path) -> str:
    """How much a run may write."""
    writable(folder)
    free = shutil.disk_usage(nearest_there(folder)).free
    if free < SPARE:
        raise OSError(f"{free / 1e6:.0f} MB free for {folder}: a long run may not end")
    return f"{free / 1e9:.0f} GB free for {folder}"


def locks(folder: Path) -> str:
    """A run's lock must keep another process out, which some network disks do not do."""
    with tempfile.NamedTemporaryFile(dir=nearest_there(folder)) as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if in_a_child(lambda: locked(file.name)) != "locked":
            raise OSError(f"locks in {folder} keep nobody out: runs there are not safe")
    return "a locked file is locked for others"


def locked(name: str) -> str:
    with open(name, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return "locked"
    return "free"


def forks() -> str:
    """Worker processes are forked and must be able to compute."""
    if in_a_child(lambda: str(torch.ones(3).sum().item())) != "3.0":
        raise OSError("a forked process does not answer; engine.workers=0 does without")
    return "worker processes start and compute"


def in_a_child(work: Callable[[], str], seconds: float = 30.0) -> str:
    """What a forked process makes of some work; nothing if it does not answer."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(work()), daemon=True)
    child.start()
    answer = ours.recv() if ours.poll(seconds) else ""
    child.kill()
    child.join()
    return str(answer)
