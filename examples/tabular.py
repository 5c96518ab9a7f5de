"""Data that is no image: a table of measurements, divided over five clinics.

The generator for such inputs is a small perceptron; a factory of your own could take its place.
Run it with: python examples/tabular.py
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch.utils.data import TensorDataset

import fedkf

table = load_breast_cancer()
x = torch.tensor(table.data, dtype=torch.float32)
y = torch.tensor(table.target)

# Constants that are agreed on beforehand; the first rows stand for a public reference sample.
centre, scale = x[:100].mean(0), x[:100].std(0)
x, y = x[100:], y[100:]

common = dict(
    dataset=TensorDataset(x, y),
    model="mlp",
    fidelity="released",
    data={
        "mean": centre.tolist(),
        "std": scale.tolist(),
        "clients": 5,
        "partition": "dirichlet",
        "alpha": 0.1,
        "min_samples": 20,
        "class_names": ["malignant", "benign"],
    },
    fraction=0.6,
    rounds=10,
    local_epochs=5,
    batch_size=16,
    lr=0.1,
    generator={"width": 32, "noise": 16},
)
for name in ("fedavg", "fedkf"):
    summary = fedkf.run(algorithm=name, **common).summary
    print(name, {k: round(v, 4) for k, v in summary["readouts"]["oca"].items()})
