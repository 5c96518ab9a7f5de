"""A loop over clients in one process, with as many threads as PyTorch takes by itself.

python benchmarks/competitors/bare.py fedavg|fedkf
"""

from __future__ import annotations

import copy
import sys

import torch
from work import ACTIVE, CLASSES, CLIENTS, LR, NOISE, WIDTH, Timer, active, batches, client_data
from work import straightforward as plain

Weights = dict[str, torch.Tensor]


def mean(models: list[Weights]) -> Weights:
    return {name: sum(m[name] for m in models) / len(models) for name in models[0]}  # type: ignore[misc]


def main(algorithm: str) -> None:
    data = [client_data(client) for client in range(CLIENTS)]
    model = plain.LeNet(CLASSES)
    weights = copy.deepcopy(model.state_dict())
    slots = [weights] * CLIENTS
    generators = [plain.Generator(32, NOISE, WIDTH, 0.0, 1.0) for _ in range(CLIENTS)]
    timer = Timer()
    for number in range(1_000_000):
        teacher = mean(slots)
        for client in active(number):
            model.load_state_dict(weights)
            mine = list(batches(*data[client]))
            if algorithm == "fedavg":
                plain.fedavg(model, mine, LR)
            else:
                noise = (torch.randn(len(y), NOISE) for _, y in mine)
                plain.fedkf(model, teacher, generators[client], mine, noise, LR)
            slots[client] = copy.deepcopy(model.state_dict())
        weights = mean([slots[client] for client in active(number)])
        assert len(active(number)) == ACTIVE
        timer.next_round()


if __name__ == "__main__":
    main(sys.argv[1])
