"""The same rounds by pfl, one process a core under torchrun.

torchrun --nproc-per-node 2 benchmarks/competitors/pfl_simulation.py
"""

from __future__ import annotations

from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops import get_ops
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional as F
from work import ACTIVE, BATCH, CLASSES, CLIENTS, EPOCHS, LR, Timer, client_data
from work import straightforward as plain


class Net(plain.LeNet):  # type: ignore[misc]
    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        self.train(not eval)
        return F.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict[str, Any]:
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


class Turns(TrainingProcessCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.timer = Timer()

    def after_central_iteration(self, *arguments: Any, **more: Any) -> tuple[bool, Any]:
        from pfl.metrics import Metrics

        if get_ops().distributed.global_rank == 0:
            self.timer.next_round()
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        return False, Metrics()


def main() -> None:
    torch.set_num_threads(1)
    data = {k: client_data(k) for k in range(CLIENTS)}
    sampler = get_user_sampler("random", list(data))
    dataset = FederatedDataset(lambda k: Dataset(raw_data=list(data[k]), user_id=str(k)), sampler)
    model = Net(CLASSES)
    central = torch.optim.SGD(model.parameters(), 1.0)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(1_000_000, 10**9, ACTIVE, 0),
        backend=SimulatedBackend(dataset, None, [WeightByDatapoints()]),
        model=PyTorchModel(model, torch.optim.SGD, central),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=EPOCHS, local_learning_rate=LR, local_batch_size=BATCH
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=BATCH),
        callbacks=[Turns()],
    )


if __name__ == "__main__":
    main()
