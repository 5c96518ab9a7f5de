"""A folder per hospital, each with a folder per class: HOSPITAL/CLASS/image.png.

Give the path of yours, or none: then small drawings stand in for scans.
Run it with: python examples/hospitals.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import fedkf


def draw(folder: Path) -> Path:
    """Discs and rings of different sizes; one hospital's scanner is darker than the others'."""
    random = np.random.default_rng(0)
    for hospital, light in (("north", 1.0), ("south", 1.0), ("coast", 0.6)):
        for kind in ("disc", "ring"):
            (folder / hospital / kind).mkdir(parents=True)
            for k in range(30):
                side = int(random.integers(24, 48))
                row, column = np.indices((side, side)) - side / 2
                distance = np.hypot(row, column) / side + random.normal(0, 0.02, (side, side))
                inside = distance < 0.35 if kind == "disc" else abs(distance - 0.3) < 0.08
                pixels = (255 * light * inside).astype(np.uint8)
                Image.fromarray(pixels).save(folder / hospital / kind / f"{k}.png")
    return folder


path = Path(sys.argv[1]) if len(sys.argv) > 1 else draw(Path(tempfile.mkdtemp()))
result = fedkf.run(
    {},
    data={"source": "folder", "path": str(path), "image_size": 32},
    algorithm="fedkf-",
    fidelity="released",
    fraction=1.0,
    rounds=8,
    local_epochs=2,
    batch_size=16,
    lr=0.05,
    generator={"width": 16},
    out=path.parent / f"{path.name}-run",
    resume=True,
)
names = [client["name"] for client in result.partition["clients"]]
for name, accuracy in zip(names, result.history[-1]["readouts"]["oca"]["accuracy"], strict=True):
    print(f"{name}: {accuracy:.1%}")
model = fedkf.load(result.folder)
print("classes:", model.class_names)
