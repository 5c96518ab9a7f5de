"""CCVR: statistics that merge exactly, a classifier that is repaired, and nothing else touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from checks import Normed, is_fedavg, refuses, survives
from conftest import Outcome, Settings, make_client
from torch import nn, tensor

import fedkf
from fedkf.algorithms.ccvr import CCVR, draw, gaussians
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Server, Upload
from fedkf.models.features import features_and_logits
from fedkf.paper.operations import measure


@pytest.mark.parametrize("model", [None, Normed])
def test_without_calibration_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: Any
) -> None:
    is_fedavg(settings, tmp_path, "ccvr", model, epochs=0)


def test_workers_and_a_kill_change_nothing(settings: Settings, tmp_path: Path) -> None:
    survives(settings, tmp_path, "ccvr", Normed)


def described(client: int, features: torch.Tensor) -> Upload:
    """What a client would send about features of class 1."""
    mean = features.mean(0)
    spread = features.T.cov() if len(features) > 1 else torch.zeros(2, 2)
    statistics = {"mean-1": mean, "covariance-1": spread}
    counts = {"1": len(features)}
    return Upload(client, 9, Payload(label_counts=counts, feature_statistics=statistics))


def test_merged_statistics_worked_out_by_hand() -> None:
    # Client 0: (0, 0), (2, 0): mean (1, 0), covariance ((2, 0), (0, 0)). Client 1: (4, 3) alone.
    # Together: mean (2, 1); squares about it (4+0+4, 1+1+4) and products 2+0+4, over 3 − 1.
    uploads = [described(0, tensor([[0.0, 0.0], [2.0, 0.0]])), described(1, tensor([[4.0, 3.0]]))]
    count, mean, covariance = gaussians(uploads)[1]
    assert count == 3
    assert mean.tolist() == [2, 1]
    assert covariance.tolist() == [[4, 3], [3, 3]]


def test_merging_gives_what_the_pooled_features_would(settings: Settings) -> None:
    """With the statistics that real clients send, from a real model."""
    clients = [make_client(settings, 1, number=k) for k in range(3)]
    down = Payload(weights=clients[0].task.initial_weights)
    sent = [Upload(k, c.size, CCVR().describe(c, down)) for k, c in enumerate(clients)]
    x = torch.cat([c.data.images for c in clients])
    y = torch.cat([c.data.labels for c in clients])
    model = clients[0].teacher(down["weights"])
    features = features_and_logits(model, x)[0].double()
    merged = gaussians(sent)
    assert sorted(merged) == y.unique().tolist()
    for label, (count, mean, covariance) in merged.items():
        own = features[y == label]
        assert count == len(own)
        assert torch.allclose(mean, own.mean(0), atol=1e-6)
        assert torch.allclose(covariance, own.T.cov(), atol=1e-6)


def test_virtual_features_have_the_mean_and_covariance_asked_for() -> None:
    covariance = tensor([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.25]], dtype=torch.float64)
    random = torch.Generator().manual_seed(0)
    z = draw(200_000, tensor([1.0, -1.0, 0.0], dtype=torch.float64), covariance, random)
    assert z.mean(0).tolist() == pytest.approx([1, -1, 0], abs=0.02)
    assert torch.allclose(z.T.cov(), covariance, atol=0.05)
    # the covariance is singular, and so are the draws: z₀ − 1 is twice z₁ + 1
    assert torch.allclose(z[:, 0] - 1, 2 * (z[:, 1] + 1), atol=1e-6)


@dataclass(frozen=True)
class Biased(CCVR):
    """After training, the last layer is made to favour class 0; then it is calibrated, or not."""

    name: ClassVar[str] = "biased"

    def finish(self, server: Server, readouts: dict[str, Weights]) -> dict[str, Weights]:
        head = readouts["aca"]["linear2.bias"] + tensor([20.0, 0.0, 0.0])
        spoilt = {**readouts["aca"], "linear2.bias": head}
        return super().finish(server, {**readouts, "aca": spoilt})


def test_a_head_biased_on_purpose_is_repaired_and_the_features_are_not_touched(
    settings: Settings,
) -> None:
    settings["data"]["alpha"] = 5.0
    options: dict[str, Any] = {"rounds": 15, "lr": 0.1, "fraction": 1.0, "evaluate_every": 15}
    before = fedkf.run(settings, algorithm=Biased(epochs=0), **options)
    after = fedkf.run(settings, algorithm=Biased(epochs=60, server_lr=0.05), **options)
    spoilt, repaired = (r.summary["readouts"]["aca"]["amp"] for r in (before, after))
    assert spoilt < 0.5
    assert repaired > 0.9
    for name, tensor_ in before.weights["aca"].items():
        same = torch.equal(tensor_, after.weights["aca"][name])
        assert same == (not name.startswith("linear"))
        assert torch.equal(before.weights["oca"][name], after.weights["oca"][name])


def test_a_calibration_that_comes_to_nothing_costs_no_run(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    plain = fedkf.run(settings, algorithm=CCVR(epochs=0), rounds=2)
    wild = fedkf.run(settings, algorithm=CCVR(server_lr=1e20), rounds=2)
    assert "what ccvr does after the last round came to a model 'aca'" in caplog.text
    assert wild.summary["readouts"] == plain.summary["readouts"]
    for name, weights in plain.weights["aca"].items():
        assert torch.equal(weights, wild.weights["aca"][name])


def test_only_counts_means_and_covariances_are_disclosed_and_once(settings: Settings) -> None:
    run = fedkf.run(settings, algorithm="ccvr", rounds=2)
    assert {"label_counts", "feature_statistics"} <= set(run.summary["disclosed"])
    first, last = (record["bytes"] for record in run.history)
    model = sum(t.nbytes for t in run.weights["aca"].values())
    assert last["down"] - first["down"] == 6 * model  # every client describes its features
    row = measure(CCVR(**CCVR.tiny))
    assert row["discloses"] == ["weights", "feature_statistics", "label_counts"]
    assert tuple(row["passes"].values()) == (1, 1, 0, 0)
    assert (row["bytes_down"], row["bytes_up"]) == (1, 1)  # of a round; the statistics go up once


def test_a_model_with_nothing_to_calibrate_is_refused_before_training(settings: Settings) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(256, 3)

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x.flatten(1))  # type: ignore[no-any-return]

        def classify(self, f: torch.Tensor) -> torch.Tensor:
            return f

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classify(self.features(x))

    with pytest.raises(fedkf.UserError, match="nothing there is learned"):
        fedkf.run(settings, algorithm="ccvr", model=Fixed)


def test_values_out_of_range_are_refused(cli: Callable[..., Outcome]) -> None:
    refuses(cli, "ccvr", "virtual", 0, "a whole number at least 1")
    refuses(cli, "ccvr", "server_lr", 0, "a number above 0")
