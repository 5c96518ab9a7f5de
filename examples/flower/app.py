"""Your own model and data on Flower, trained with FedKF: `flwr run examples/flower`.

The same ServerApp and ClientApp serve a simulation and a deployment. Without a project:
python examples/flower/app.py
"""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import TensorDataset

import fedkf.flower


class Net(nn.Module):
    """Your model: anything that returns one number per class."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(13, 32), nn.ReLU())
        self.head = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def data(context: Context) -> tuple[TensorDataset, TensorDataset]:
    """Your data: the training and test samples of the client that this node is."""
    wine = load_wine()
    x, y = torch.tensor(wine.data, dtype=torch.float32), torch.tensor(wine.target)
    x = (x - x.mean(0)) / x.std(0)
    # Neighbours in the file are of the same class, so the clients differ a lot.
    client, clients = context.node_config["partition-id"], context.node_config["num-partitions"]
    own = torch.arange(len(y)).chunk(clients)[client]
    test, train = own[::4], own[torch.arange(len(own)) % 4 != 0]
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


client = fedkf.flower.client_app(Net, data)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    strategy = fedkf.flower.FedKFStrategy(
        model=Net, classes=3, lr=0.1, local_epochs=2, batch_size=16, generator={"width": 16}
    )
    rounds = int(context.run_config.get("rounds", 10))
    torch.manual_seed(0)
    result = strategy.start(grid, ArrayRecord(Net().state_dict()), num_rounds=rounds)
    last = strategy.history[-1]["readouts"]["oca"]
    print(f"average {last['amp']:.3f}, worst client {last['wlp']:.3f}")
    Net().load_state_dict(result.arrays.to_torch_state_dict())  # yours to keep


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    run_simulation(server, client, 4, backend_config={"client_resources": {"num_cpus": 1}})
