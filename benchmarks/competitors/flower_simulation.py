"""The same rounds in Flower's simulation, one core for a client.

python benchmarks/competitors/flower_simulation.py
"""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import ACTIVE, CLASSES, CLIENTS, LR, Timer, batches, client_data
from work import straightforward as plain

client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = plain.LeNet(CLASSES)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = client_data(int(context.node_config["partition-id"]))
    plain.fedavg(model, batches(x, y), LR)
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(content=RecordDict(content), reply_to=message)


class InTurns(FedAvg):
    """Flower's own strategy, waiting for its turn before every round."""

    timer = Timer()

    def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
        if server_round > 1:  # the first one starts Ray's actors
            self.timer.next_round()
        return super().configure_train(server_round, arrays, config, grid)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    arrays = ArrayRecord(plain.LeNet(CLASSES).state_dict())
    strategy = InTurns(
        fraction_train=ACTIVE / CLIENTS, fraction_evaluate=0.0, min_train_nodes=ACTIVE
    )
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=1_000_000)


if __name__ == "__main__":
    run_simulation(
        server_app,
        client_app,
        CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 2},
        },
    )
