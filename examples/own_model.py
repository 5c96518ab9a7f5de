"""Your own model and a Dataset per site, in a plain script.

Each "site" here holds some of scikit-learn's digits; put your own torch Datasets in their place.
Run it with: python examples/own_model.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import fedkf

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # N×1×8×8 in [0, 1]
labels = torch.tensor(digits.target)

# Three sites that see different digits; no image is at two of them.
third = torch.arange(len(labels)) % 3
here = {
    "north": (third == 0) & (labels < 6),
    "south": (third == 1) & (labels > 3),
    "coast": (third == 2) & (labels % 2 == 0),
}
sites = {name: TensorDataset(images[mine], labels[mine]) for name, mine in here.items()}


def make_model() -> nn.Module:
    """Any classifier: here with batch norm and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


result = fedkf.run(
    clients=sites,
    model=make_model,
    algorithm=fedkf.FedKF(gamma=1.0),
    fidelity="released",
    fraction=1.0,
    rounds=8,
    local_epochs=2,
    lr=0.05,
    generator={"width": 16},
    workers=2,
    on_round=lambda record: print(record["round"], record["readouts"]["oca"]["accuracy"]),
)
print("average", result.summary["readouts"]["oca"]["amp"])
print("worst site", result.summary["readouts"]["oca"]["wlp"])
