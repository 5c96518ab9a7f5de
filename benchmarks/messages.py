"""Bytes of a round for each codec, counted by the ledger, LeNet-5 with 26 classes.

python benchmarks/messages.py
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch.utils.data import Subset, TensorDataset

import fedkf

CLIENTS, IMAGES, CLASSES = 4, 20, 26


def a_round(algorithm: str, **transport: str) -> dict[str, int]:
    """Bytes down and up in the second round (the first sends no teacher)."""
    random = np.random.default_rng(0)
    images = random.random((CLIENTS * IMAGES, 1, 32, 32), dtype=np.float32)
    labels = np.arange(len(images)) % CLASSES
    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    result = fedkf.run(
        clients={f"{k}": Subset(data, range(k, len(data), CLIENTS)) for k in range(CLIENTS)},
        model="lenet5",
        algorithm=algorithm,
        fidelity="released",
        rounds=2,
        fraction=1.0,
        local_epochs=1,
        generator={"preset": "lite"},
        workers=0,
        **transport,
    )
    found: dict[str, int] = result.history[-1]["bytes"]
    return found


def main() -> None:
    plain = a_round("fedavg")
    total = sum(plain.values())
    print("| algorithm | downlink | uplink | down, kB a client | up | total, of FedAvg's |")
    print("|---|---|---|---|---|---|")
    rows = [("fedavg", "full", "full"), ("fedkf-", "full", "full")]
    ways = itertools.product(("full", "delta8", "delta4"), ("full", "half", "delta8"))
    rows += [("fedkf", down, up) for down, up in ways]
    for algorithm, downlink, uplink in rows:
        found = a_round(algorithm, downlink=downlink, uplink=uplink)
        down, up = (found[way] / CLIENTS / 1000 for way in ("down", "up"))
        share = sum(found.values()) / total
        print(f"| {algorithm} | {downlink} | {uplink} | {down:.0f} | {up:.0f} | {share:.3f}× |")


if __name__ == "__main__":
    main()
