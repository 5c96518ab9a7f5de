"""The same rounds by fedkf, checkpoints included, two workers.

python benchmarks/competitors/ours.py fedavg|fedkf
"""

from __future__ import annotations

import sys
import tempfile

from torch.utils.data import TensorDataset
from work import ACTIVE, BATCH, CLIENTS, EPOCHS, IMAGES, LR, NOISE, WIDTH, Timer, client_data

import fedkf


def main(algorithm: str) -> None:
    timer = Timer()
    # A fifth of a client's samples is kept for testing.
    clients = {
        f"client {k}": TensorDataset(*client_data(k, IMAGES * 5 // 4)) for k in range(CLIENTS)
    }
    with tempfile.TemporaryDirectory() as folder:
        fedkf.run(
            model="lenet5",
            clients=clients,
            algorithm=algorithm,
            fidelity="released",
            rounds=1_000_000,
            fraction=ACTIVE / CLIENTS,
            local_epochs=EPOCHS,
            batch_size=BATCH,
            lr=LR,
            generator={"preset": "paper", "noise": NOISE, "width": WIDTH},
            evaluate_every=1_000_000,
            workers=2,
            out=folder + "/run",
            on_round=lambda record: timer.next_round(),
        )


if __name__ == "__main__":
    main(sys.argv[1])
