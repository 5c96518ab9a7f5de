"""Seconds and memory per round as the number of clients grows, ten of them active.

    python benchmarks/scale.py [--rounds 200] [--clients 100 1000 10000 100000 1000000]

Vectors of 16 numbers, ten samples a client, an MLP, evaluation on 100 clients every round. Every
size runs in a process of its own; told are the mean time from one round to the next, everything
included, and the largest resident memory. Among 100 clients all have been active before long, so
that slots and states are read again; among 100,000 nearly all are new.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

ACTIVE, SAMPLES, LENGTH, CLASSES = 10, 10, 16, 4


def federated(algorithm: str, clients: int, rounds: int) -> dict[str, Any]:
    import numpy as np

    import fedkf

    random = np.random.default_rng(0)
    labels = np.arange(clients * SAMPLES) % CLASSES
    inputs = random.standard_normal((len(labels), LENGTH), dtype=np.float32)
    inputs[np.arange(len(labels)), labels] += 2
    ends: list[float] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        np.savez(folder + "/data.npz", images=inputs, labels=labels)
        del inputs

        def keep(record: dict[str, Any]) -> None:
            ends.append(time.perf_counter())

        fedkf.run(
            data={"source": "npz", "path": folder + "/data.npz", "partition": "iid"},
            model="mlp",
            generator={"name": "mlp", "preset": "lite"},
            algorithm=algorithm,
            fidelity="released",
            clients=clients,
            rounds=rounds,
            fraction=ACTIVE / clients,
            local_epochs=5,
            steps="own",
            batch_size=4,
            evaluate_clients=100,
            workers=0,
            out=folder + "/run",
            on_round=keep,
        )
    seconds = (ends[-1] - ends[0]) / (len(ends) - 1)
    return {"seconds": seconds, "start": ends[0] - began, "memory": most_memory()}


def most_memory() -> float:
    """The largest resident memory of this process, in GB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int, nargs="*", default=[10**n for n in range(2, 7)])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        algorithm, clients = given.one
        print(json.dumps(federated(algorithm, int(clients), given.rounds)))
        return
    print("| algorithm | clients | first round after | a round | of the smallest | memory |")
    print("|---|---|---|---|---|---|")
    for algorithm in ("fedavg", "fedkf"):
        first = None
        for clients in given.clients:
            if algorithm == "fedkf" and clients > 10**5:
                continue
            command = [sys.executable, __file__, "--rounds", str(given.rounds)]
            command += ["--one", algorithm, str(clients)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            found = json.loads(done.stdout.splitlines()[-1])
            first = first or found["seconds"]
            print(
                f"| {algorithm} | {clients:,} | {found['start']:.1f} s "
                f"| {1000 * found['seconds']:.0f} ms | {found['seconds'] / first:.2f}× "
                f"| {found['memory']:.2f} GB |",
                flush=True,
            )


if __name__ == "__main__":
    main()
