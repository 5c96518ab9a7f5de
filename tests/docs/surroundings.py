"""What the pages of the documentation take for granted: a folder of scans, a NumPy file, runs."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import TensorDataset

import fedkf

STUDY = """
data: {source: folder, path: scans, image_size: 16, class_names: [disc, ring]}
federation: {rounds: 1, fraction: 1.0, local_epochs: 1, batch_size: 8}
"""
MODELS = """
from torch import nn


def make(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, classes))
"""
TRACE = "round,clients\n1,0,3,7\n"


def make_world(folder: Path) -> None:
    """The files that pages speak of, as small as can be."""
    random = np.random.default_rng(0)
    for place in ("scans/north", "scans/south", "scans/coast", "new-scans"):
        for kind in ("disc", "ring"):
            (folder / place / kind).mkdir(parents=True)
            for k in range(10):
                pixels = random.integers(0, 120, (16, 16)) + 120 * (kind == "disc")
                image = Image.fromarray(pixels.astype(np.uint8))
                image.save(folder / place / kind / f"{k}.png")
    image.save(folder / "patient.png")
    labels = np.arange(60) % 3
    images = random.random((60, 8, 8)).astype(np.float32)
    np.savez(folder / "mine.npz", images=images, labels=labels, client=np.arange(60) % 4)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "trace.csv").write_text(TRACE)
    (folder / "mypackage").mkdir()
    (folder / "mypackage/models.py").write_text(MODELS)


class Runs:
    """Finished runs of three algorithms on the scans, made once and copied where a page has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, path: Path, many: bool) -> None:
        if not self.folder.exists():
            self.make()
        shutil.copytree(self.folder if many else self.folder / "fedkf", path)

    def make(self) -> None:
        scans = self.folder.parent / "world"
        make_world(scans)
        for name in ("fedavg", "fedkf", "local"):
            fedkf.run(
                {},
                data={"source": "folder", "path": str(scans / "scans"), "image_size": 16},
                algorithm=name,
                rounds=1,
                fraction=1.0,
                local_epochs=1,
                out=self.folder / name,
                workers=0,
            )


class Net(nn.Module):
    """A model of the user's own."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


class Generator(nn.Module):
    """A generator of the user's own."""

    def __init__(self, shape: tuple[int, ...], noise: int) -> None:
        super().__init__()
        self.linear, self.shape = nn.Linear(noise, int(np.prod(shape))), shape

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(z).view(-1, *self.shape).sigmoid()
        return out


def names() -> dict[str, Any]:
    """What Python blocks take for granted."""

    def dataset(seed: int) -> TensorDataset:
        random = torch.Generator().manual_seed(seed)
        images = torch.rand(30, 1, 8, 8, generator=random)
        return TensorDataset(images, torch.arange(30) % 3)

    return {
        "fedkf": fedkf,
        "make_model": Net,
        "MyNet": partial(Net, 10),
        "Net": Net,
        "MyGenerator": Generator,
        "dataset": dataset(0),
        "dataset_a": dataset(1),
        "dataset_b": dataset(2),
        "images": torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(3)),
    }
