"""What algorithms cost is measured, and the paper's tables stand beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

import fedkf
from fedkf import algorithms
from fedkf.algorithms.perfedavg import PerFedAvg
from fedkf.algorithms.pfedme import PFedMe
from fedkf.algorithms.qffl import QFFL
from fedkf.algorithms.scaffold import Scaffold
from fedkf.cli.algorithms import algorithms_table
from fedkf.core.algorithm import LocalLoss
from fedkf.core.client import Client
from fedkf.core.payload import Payload
from fedkf.core.server import Upload
from fedkf.paper.operations import PASSES, differences, measure, paper_rows, table


@dataclass(frozen=True)
class PredictorTwice(fedkf.Algorithm):
    """Sends the features through the predictor once more."""

    name: ClassVar[str] = "predictor-twice"

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        def loss(x: Tensor, y: Tensor) -> Tensor:
            features = client.model.features(x)  # type: ignore[operator]
            again = client.model.classify(features.detach())  # type: ignore[operator]
            return client.task.loss(client.model.classify(features) + again, y)  # type: ignore[operator]

        return loss


@dataclass(frozen=True)
class LooksFirst(fedkf.Algorithm):
    """Looks at all its data twice before training, and says how many samples of each class."""

    name: ClassVar[str] = "looks-first"
    discloses: ClassVar[tuple[str, ...]] = ("label_counts",)

    def local_update(self, client: Client, down: Payload) -> Payload:
        model = client.start(down["weights"])
        for _ in range(2):
            model(client.data.images)
        upload = super().local_update(client, down)
        return upload.add("label_counts", {"0": len(client.data.labels)})

    def aggregate(self, server: Any, state: Payload, uploads: Sequence[Upload]) -> Payload:
        server.task.load("teacher", state["weights"])(torch.zeros(1, *server.task.shape))
        return super().aggregate(server, state, uploads)


def passes(algorithm: fedkf.Algorithm) -> tuple[float, ...]:
    return tuple(measure(algorithm)["passes"].values())


def test_a_pass_through_the_predictor_alone_counts_half() -> None:
    assert passes(PredictorTwice()) == (1.5, 1.5, 0, 0)


def test_passes_outside_the_steps_and_on_the_server_are_not_in_them() -> None:
    row = measure(LooksFirst())
    assert tuple(row["passes"].values()) == (1, 1, 0, 0)
    assert tuple(row["passes_outside"].values()) == (2, 0, 0, 0)
    assert row["discloses"] == ["weights", "label_counts"]


def test_passes_are_counted_for_each_batch_of_local_data() -> None:
    assert passes(PFedMe(personal_steps=3)) == (3, 3, 0, 0)
    assert passes(PerFedAvg()) == (2, 2, 0, 0)
    assert passes(PerFedAvg(variant="hessian-free")) == (4, 4, 0, 0)


def test_what_each_sends_is_measured() -> None:
    scaffold, qffl = measure(Scaffold()), measure(QFFL())
    assert (scaffold["bytes_down"], scaffold["bytes_up"]) == (2, 2)
    assert qffl["discloses"] == ["weights", "local_loss"]
    assert qffl["passes"]["classifier_forward"] == 1  # its loss is outside the steps
    assert qffl["passes_outside"]["classifier_forward"] == 1


def test_every_algorithm_has_a_row_as_the_contract_says() -> None:
    rows = table()
    assert [row["name"] for row in rows] == algorithms.names()
    for row in rows:
        assert set(row["passes"]) == set(PASSES)
        assert row["discloses"][0] == "weights"
        kind = algorithms.get(row["name"])
        assert set(row["discloses"][1:]) == set(kind.discloses), row["name"]
    shown = algorithms_table(rows)
    assert shown.row_count == len(rows)


def test_the_papers_tables_are_transcribed() -> None:
    rows = paper_rows()
    leaking = {name for name, row in rows.items() if row["leaks"]}
    fair = {name for name, row in rows.items() if row["fairness_aware"]}
    assert leaking == {"fedgen", "ccvr"}
    assert fair == {"qffl", "fedmgda", "fedkf"}
    assert {name for name, row in rows.items() if row["needs_proxy_data"]} == {"feddf"}
    assert tuple(rows["fedgen"]["passes"].values()) == (1.5, 1.5, 1, 0)
    assert tuple(rows["fedgkd"]["passes"].values()) == (2, 1, 0, 0)


def test_where_the_paper_differs_both_are_shown() -> None:
    row = measure(fedkf.FedKF(resample=True))
    printed = paper_rows()
    assert differences(row, printed) == ["passes"]
    assert differences(measure(fedkf.FedAvg()), printed) == []
    full = {**row, "paper": printed["fedkf"], "differs": ["passes"]}
    made = algorithms_table([full])
    cells = [next(iter(column.cells)) for column in made.columns]
    assert "4/3 (paper: 3/3)" in cells
    assert "2/1 (paper: 1/1)" in cells


def test_the_compiler_is_left_out_of_measuring_and_there_afterwards() -> None:
    program = (
        "import sys, torch\n"
        "from fedkf.cli.imports import without_compiler\n"
        "from fedkf.algorithms.fedavg import FedAvg\n"
        "from fedkf.paper.operations import measure\n"
        "with without_compiler():\n"
        "    measure(FedAvg())\n"
        "    assert not [name for name in sys.modules if name.startswith('torch._dynamo.')]\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "import torch._dynamo\n"
        "assert torch._dynamo.config is not None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
