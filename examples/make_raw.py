"""Small made files in the shape of real ones: a wearable's, an ECG's, a hospital's.

python examples/make_raw.py wearable|ecg|hospitals FOLDER
"""

import sys
from pathlib import Path

import numpy as np

random = np.random.default_rng(0)


def write(file: Path, columns: str, *values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = (",".join(map(str, row)) for row in zip(*values, strict=True))
    file.write_text("\n".join([columns, *rows]) + "\n")


def wearable(folder: Path) -> None:
    """A folder a person, a file a recording: three axes at 32 Hz, each person with a pace."""
    for person, pace in {"ann": 1.6, "ben": 2.0, "cleo": 2.4, "dan": 1.8}.items():
        for number, activity in enumerate(["walk", "run", "sit"] * 2):
            beat = {"walk": 1.0, "run": 1.7, "sit": 0.0}[activity]
            time = np.arange(512) / 32
            moved = beat * np.sin(2 * np.pi * pace * beat * time)
            axes = [moved, 0.5 * moved + 9.81, 0.2 * moved]
            noisy = [(a + 0.2 * random.standard_normal(512)).round(3) for a in axes]
            label = np.full(512, activity)
            write(folder / person / f"{number}.csv", "time,x,y,z,activity", time, *noisy, label)


def ecg(folder: Path) -> None:
    """A signal a patient, and beside it where its beats are and of which kind."""
    for patient, rare in {"p1": 0.1, "p2": 0.3, "p3": 0.2, "p4": 0.4}.items():
        peaks = 40 + 80 * np.arange(60) + random.integers(-5, 6, 60)
        kinds = np.where(random.random(60) < rare, "V", "N")
        signal = 0.05 * random.standard_normal(60 * 80 + 80)
        for peak, kind in zip(peaks, kinds, strict=True):
            wide = 3 if kind == "N" else 9
            signal += np.exp(-(((np.arange(len(signal)) - peak) / wide) ** 2))
        write(folder / f"{patient}.csv", "mv", signal.round(4))
        write(folder / f"{patient}.beats.csv", "sample,kind", peaks, kinds)


def hospitals(folder: Path) -> None:
    """A table a hospital: what was not measured is empty; `south` codes its outcome differently."""
    for name, older in {"north": 0, "east": 4, "west": -4, "south": 2}.items():
        age = (65 + older + 12 * random.standard_normal(160)).round(1)
        sex, unit = random.choice(["f", "m"], 160), random.choice(["icu", "ward"], 160)
        lactate = np.exp(0.4 * random.standard_normal(160)).round(4)
        risk = (age - 65) / 10 + 1.5 * np.log(lactate) + (unit == "icu") - 0.5
        died = (risk + 0.7 * random.standard_normal(160) > 0) ^ (name == "south")
        told = np.where(random.random(160) < 0.1, "", lactate.astype(str))
        write(folder / f"{name}.csv", "age,sex,unit,lactate,died", age, sex, unit, told, died * 1)


{"wearable": wearable, "ecg": ecg, "hospitals": hospitals}[sys.argv[1]](Path(sys.argv[2]))
