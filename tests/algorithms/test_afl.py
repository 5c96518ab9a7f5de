"""AFL: the mixture climbs by hand-worked steps, and the worst client gains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings
from helpers import close, score, server, upload
from hypothesis import given
from hypothesis import strategies as st
from quadratics import Quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.afl import AFL, onto_simplex
from fedkf.core.payload import Payload


@pytest.mark.parametrize("ascent", ["projected", "mirror"])
def test_with_one_client_or_a_still_mixture_it_is_fedavg(settings: Settings, ascent: str) -> None:
    one = settings | {"data": {**settings["data"], "clients": 1}}
    cases: list[tuple[Settings, Settings]] = [(one, {}), (settings, {"mixture_lr": 0.0})]
    for case, more in cases:
        options: Settings = {"fraction": 1.0, "ascent": ascent, "readout": "last", **more}
        plain = fedkf.run(case, algorithm="fedavg", fraction=1.0).weights
        assert close(fedkf.run(case, algorithm="afl", **options).weights["aca"], plain["aca"])


def losses(*values: float) -> list[dict[str, dict[str, float]]]:
    return [{"local_loss": {"value": value}} for value in values]


def test_a_round_worked_out_by_hand() -> None:
    # λ = (½, ¼, ¼), clients 0 and 1 active: w = (½·0 + ¼·3) / ¾ = 1.
    # K/m = 3/2, γ = 0.2: λ + 0.3·(1, 2, 0) = (0.8, 0.85, 0.25). Thirds of the excess 0.9 would
    # take the last below 0, so it becomes 0 and the others give half of 0.65 each.
    mixture = tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    state = Payload(weights={"w": tensor([9.0])}, mixture={"weights": mixture})
    first, second = losses(1.0, 2.0)
    uploads = [upload(0, 1, [0.0], **first), upload(1, 1, [3.0], **second)]
    new = AFL(mixture_lr=0.2).aggregate(server(clients=3), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(1.0)
    assert new["mixture"]["weights"].tolist() == pytest.approx([0.475, 0.525, 0.0])
    # Mirror ascent multiplies by e^(0.3·loss) and divides by the sum.
    new = AFL(mixture_lr=0.2, ascent="mirror").aggregate(server(clients=3), state, uploads)
    raised = mixture * tensor([0.3, 0.6, 0.0], dtype=torch.float64).exp()
    assert torch.allclose(new["mixture"]["weights"], raised / raised.sum())


def test_a_mixture_that_one_loss_took_away_comes_back() -> None:
    algorithm = AFL(mixture_lr=1.0, ascent="mirror", readout="last")
    state = Payload(weights={"w": tensor([9.0])}, mixture={"weights": torch.ones(3).double() / 3})
    for values in [(1.0, 1.0, 1e9)] + [(1.0, 1.0, 0.0)] * 60:
        told = zip(range(3), losses(*values), strict=True)
        uploads = [upload(k, 1, [0.0], **loss) for k, loss in told]
        state = algorithm.aggregate(server(clients=3), state, uploads)
    assert state["mixture"]["weights"].tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_clients_that_the_mixture_has_left_count_alike() -> None:
    state = Payload(weights={"w": tensor([9.0])}, mixture={"weights": tensor([0.0, 0.0, 1.0])})
    first, second = losses(1.0, 1.0)
    uploads = [upload(0, 1, [0.0], **first), upload(1, 5, [4.0], **second)]
    new = AFL().aggregate(server(clients=3), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(2.0)


def test_the_model_is_the_mean_of_the_iterates_and_training_goes_on_from_the_last() -> None:
    algorithm = AFL(mixture_lr=0.0)
    half = tensor([0.5, 0.5], dtype=torch.float64)
    state = Payload(weights={"w": tensor([8.0])}, mixture={"weights": half})
    assert algorithm.model(state)["w"].item() == 8  # nothing but w⁰
    models, sent = [], []
    for value in (1.0, 3.0, 8.0):
        sent.append(algorithm.broadcast(server(clients=2), state)["weights"]["w"].item())
        uploads = [upload(0, 1, [value], **losses(1.0)[0])]
        state = algorithm.aggregate(server(clients=2), state, uploads)
        models.append(algorithm.model(state)["w"].item())
    assert models == [1, 2, 4]  # w⁰ is no iterate
    assert sent == [8, 1, 3]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_the_projection_is_the_nearest_point_of_the_simplex(values: list[float]) -> None:
    point = tensor(values, dtype=torch.float64)
    nearest = onto_simplex(point)
    assert nearest.sum().item() == pytest.approx(1)
    assert (nearest >= 0).all()
    # The way on to any corner turns away from the point.
    for corner in torch.eye(len(values), dtype=torch.float64):
        assert ((point - nearest) @ (corner - nearest)).item() <= 1e-9


@pytest.mark.parametrize("ascent", ["projected", "mirror"])
def test_the_worst_clients_loss_goes_to_the_least_possible(tmp_path: Path, ascent: str) -> None:
    """f₁ = ½ w², f₂ = 2 (w − 3)²: the mean is least at 2.4; the larger of the two at 2."""
    one = torch.eye(1)
    federation = Quadratics([one, 4 * one], [tensor([0.0]), tensor([3.0])])
    plain = federation.run(fedkf.FedAvg(), tmp_path, 25, lr=0.1)
    fair = federation.run(AFL(mixture_lr=0.05, ascent=ascent), tmp_path, 100, lr=0.1)
    assert plain.item() == pytest.approx(2.4, abs=0.01)
    assert fair.item() == pytest.approx(2.0, abs=0.1)
    assert max(federation.losses(fair)) < 0.85 * max(federation.losses(plain))


@pytest.mark.parametrize("ascent", ["projected", "mirror"])
def test_the_odd_site_gains_over_fedavg(ascent: str) -> None:
    """The mean of all rounds trails the last one: it also holds the first."""
    plain = score("fedavg")["wlp"]
    assert score("afl", ascent=ascent, readout="last")["wlp"] > plain + 0.3
    assert score("afl", ascent=ascent)["wlp"] > plain + 0.1
