"""FedKF in a Flower app of one's own: both sides as Flower calls them, in one process."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from switchboard import Switchboard, node_of

import fedkf
import fedkf.flower
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload
from fedkf.flower.strategy import Participants

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)  # where private state is kept
    spec = importlib.util.spec_from_file_location("flower_example", EXAMPLE / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def board(example: Any, order: list[int]) -> Any:
    """A node for each of four clients; node ids are random in Flower."""
    return Switchboard({node: node_of(example.client, k, 4) for k, node in enumerate(order)})


def test_the_example_is_short_and_learns(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from flwr.app import Context, RecordDict

    assert len((EXAMPLE / "app.py").read_text().splitlines()) < 80
    example.server(board(example, [5, 9, 3, 7]), Context(1, 0, {}, RecordDict(), {"rounds": 6}))
    said = capsys.readouterr().out
    assert float(said.split()[1].strip(",")) > 0.8


def start(example: Any, algorithm: Any, order: list[int], **more: Any) -> Any:
    strategy = fedkf.flower.AlgorithmStrategy(
        algorithm, model=example.Net, classes=3, lr=0.1, fraction=0.5, local_epochs=1, batch_size=16
    )
    torch.manual_seed(0)
    arrays = ArrayRecord(example.Net().state_dict())
    return strategy, strategy.start(board(example, order), arrays, num_rounds=3, **more)


def test_node_ids_change_nothing(example: Any) -> None:
    for algorithm in ("fedkf", "scaffold", fedkf.FedKF(gamma=0.5)):
        weights = []
        for order in ([1, 2, 3, 4], [40, 10, 30, 20]):
            strategy, _ = start(example, algorithm, order)
            weights.append(Payload(weights=strategy.readouts["oca"]).to_bytes())
            assert [r["refused"] for r in strategy.history] == [[], [], []]
        assert weights[0] == weights[1]


def test_it_waits_for_the_nodes_that_are_needed(example: Any) -> None:
    class Filling(Switchboard):
        """A node more whenever it is asked who is there."""

        there = 0

        def get_node_ids(self) -> list[int]:
            self.there = min(self.there + 1, len(self.nodes))
            return list(self.nodes)[: self.there]

    config = fedkf.flower.AlgorithmStrategy("fedavg", model=example.Net, classes=3).config
    late: Any = Filling(board(example, [4, 3, 2, 1]).nodes)
    assert Participants.gather(late, config, "0123abcd", 60).nodes == {0: 4, 1: 3, 2: 2, 3: 1}
    many = config.federation.model_copy(update={"min_clients": 5})
    with pytest.raises(FedkfError, match="4 nodes are connected, and 5 are needed"):
        Participants.gather(late, config.model_copy(update={"federation": many}), "0123abcd", 0.1)


def test_nodes_of_the_same_partition_are_told(example: Any) -> None:
    config = fedkf.flower.AlgorithmStrategy("fedavg", model=example.Net, classes=3).config
    twins: Any = Switchboard({1: node_of(example.client, 0, 4), 2: node_of(example.client, 0, 4)})
    with pytest.raises(FedkfError, match="two nodes have the partition-id 0"):
        Participants.gather(twins, config, "0123abcd", 60)
    strange: Any = Switchboard({1: lambda message: Message(RecordDict(), reply_to=message)})
    with pytest.raises(FedkfError, match="0 of 1 nodes answered"):
        Participants.gather(strange, config, "0123abcd", 60)


def test_metrics_and_private_state_are_kept(example: Any, tmp_path: Path) -> None:
    seen = []

    def evaluate(round: int, arrays: ArrayRecord) -> MetricRecord:
        seen.append((round, len(arrays)))
        return MetricRecord({"round": round})

    strategy, result = start(example, "fedkf", [1, 2, 3, 4], evaluate_fn=evaluate)
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert set(result.evaluate_metrics_clientapp) == {1, 2, 3}
    last = strategy.history[-1]["readouts"]["oca"]
    assert result.evaluate_metrics_clientapp[3]["oca-wlp"] == last["wlp"]
    assert last["clients"] == [0, 1, 2, 3]
    oca = strategy.readouts["oca"]
    assert all(torch.equal(v, oca[k]) for k, v in result.arrays.to_torch_state_dict().items())
    files = list((tmp_path / "fedkf-state").rglob("*.safetensors"))
    active = {k for record in strategy.history for k in record["active"]}
    assert {int(f.name.split("-")[0]) for f in files} == active


def test_what_cannot_work_is_refused_at_once(example: Any) -> None:
    make = fedkf.flower.AlgorithmStrategy
    with pytest.raises(UserError, match="feddf needs unlabelled data"):
        make("feddf", model=example.Net, classes=3)
    with pytest.raises(UserError, match="no setting 'learning_rate'"):
        make("fedavg", model=example.Net, classes=3, learning_rate=1)
    with pytest.raises(UserError, match=r"generator\.start names a file"):
        make("fedkf", model=example.Net, classes=3, generator={"start": "generator.safetensors"})
