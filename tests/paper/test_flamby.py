"""FLamby's protocol: its loss by hand, its published numbers, and the table beside them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from folders import score

from fedkf.core.objective import find
from fedkf.models.features import features_and_logits
from fedkf.models.mlp import Linear
from fedkf.paper.flamby import METHODS, SCALES, flamby_plans, published, tables, within
from fedkf.paper.scales import choose
from fedkf.runs.collect import gather
from fedkf.runs.suite import Finished, Plan


def test_the_loss_is_over_all_patients_of_a_batch() -> None:
    # Events at 1 and 2 of four patients, all with risk 0: log 4 and log 3, over 4.
    targets = torch.tensor([[1.0, 1.0], [2.0, 1.0], [3.0, 0.0], [4.0, 0.0]])
    loss = find("fedkf.paper.flamby:CoxOverAll")().loss(torch.zeros(4, 1), targets)
    assert float(loss) == pytest.approx((math.log(4) + math.log(3)) / 4)


def test_a_linear_model_has_its_inputs_as_features() -> None:
    model, x = Linear((13,), 1), torch.randn(5, 13)
    features, logits = features_and_logits(model, x)
    assert torch.equal(features, x)
    assert logits.shape == (5, 1)
    assert sum(p.numel() for p in model.parameters()) == 14


def test_published_numbers_are_those_of_the_benchmark() -> None:
    # As the data's description has them: the mean over sites and the worst, over five seeds.
    for data, algorithm, mean, worst in (
        ("heart", "fedavg", 0.685, 0.595),
        ("heart", "fedyogi", 0.731, 0.676),
        ("heart", "pooled", 0.735, 0.644),
        ("tcga", "fedavg", 0.732, 0.512),
        ("tcga", "pooled", 0.676, 0.402),
    ):
        for key, value in (("mean", mean), ("worst", worst)):
            found = published(f"{data}-flamby", algorithm, key)
            assert len(found) == 5
            assert sum(found) / 5 == pytest.approx(value, abs=0.0006)


def test_all_sites_make_a_hundred_updates_a_round() -> None:
    plans = flamby_plans(choose("paper", scales=SCALES))
    assert len(plans) == 2 * len(METHODS) * 5
    for plan in plans:
        settings = plan.config.federation
        assert (settings.steps, settings.local_epochs, settings.fraction) == (100, 1, 1.0)
    yogi = next(p.config for p in plans if p.name == "heart-flamby,fedyogi,seed=0")
    assert (yogi.federation.lr, yogi.algorithm.server_lr) == (0.003162, 0.01)  # type: ignore[attr-defined]


def finished(folder: Path, plan: Plan, accuracies: list[float]) -> Finished:
    """A record of one round; the number of tests of a site does not matter."""
    path = folder / plan.name
    path.mkdir()
    readouts = {"aca": score(accuracies)}
    about = {"algorithm": plan.config.algorithm.name, "rounds": 1, "readouts": readouts}
    (path / "summary.json").write_text(json.dumps(about))
    (path / "rounds.jsonl").write_text(json.dumps({"round": 1, "readouts": readouts}) + "\n")
    return Finished(path, plan.config)


def test_sites_count_alike_and_stand_beside_what_is_published(tmp_path: Path) -> None:
    scale = choose("small", ["heart-flamby"], None, 2, ["fedavg", "fedkf"], SCALES)
    plans = flamby_plans(scale)
    values = {0: [0.6, 0.7, 0.7, 0.8], 1: [0.5, 0.6, 0.7, 0.8]}
    runs = {p.name: finished(tmp_path, p, values[p.config.federation.seed]) for p in plans}
    (table,) = tables(gather(plans, runs), scale)
    mean, worst, verdict = table.rows["FedAvg"]
    assert mean.values == pytest.approx((0.7, 0.65))
    assert worst.values == pytest.approx((0.6, 0.5))
    assert mean.published is not None
    assert mean.published.mean == pytest.approx(0.685, abs=0.0005)
    assert verdict.text == "yes"
    assert [cell.published for cell in table.rows["FedKF"][:2]] == [None, None]
    assert table.rows["FedKF"][2].text == "–"


def test_a_mean_is_within_or_beyond_their_seeds() -> None:
    assert within([0.5], [0.4, 0.6]) == "yes"
    assert within([0.7], [0.4, 0.6]) == "above"
    assert within([0.3, 0.4], [0.4, 0.6]) == "below"
