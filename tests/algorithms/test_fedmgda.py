"""FedMGDA+: the min-norm point is the optimum, and no client pays for the others."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Settings, Unsteady, model_bytes
from helpers import close, score, server, upload
from hypothesis import example, given
from hypothesis import strategies as st
from quadratics import Quadratics, random_quadratics
from torch import tensor

import fedkf
from fedkf.algorithms.fedmgda import FedMGDA, min_norm_weights
from fedkf.core.payload import Payload


def test_without_room_and_normalisation_it_is_fedavg(settings: Settings) -> None:
    ours = fedkf.run(settings, algorithm="fedmgda", epsilon=0.0, normalise=False)
    assert close(ours.weights["aca"], fedkf.run(settings, algorithm="fedavg").weights["aca"])


def test_a_step_worked_out_by_hand() -> None:
    # Updates (3, 0) and (0, 4) become (1, 0) and (0, 1): the shortest mixture is (½, ½).
    # With ε = 0.1 around (0.8, 0.2) the weights stop at (0.7, 0.3).
    state = Payload(weights={"w": tensor([5.0, 5.0])})
    uploads = [upload(0, 8, [2.0, 5.0]), upload(1, 2, [5.0, 1.0])]
    new = FedMGDA(epsilon=1.0, server_lr=2.0).aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([5 - 2 * 0.5, 5 - 2 * 0.5])
    new = FedMGDA(epsilon=0.1).aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([5 - 0.7, 5 - 0.3])
    # Not normalised: ‖λ (3, 0) + (1 − λ) (0, 4)‖² is least at λ = 16/25.
    new = FedMGDA(epsilon=1.0, normalise=False).aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([5 - 3 * 0.64, 5 - 4 * 0.36])


def test_a_client_that_did_not_move_holds_the_others_still() -> None:
    """Its update is zero, the shortest there is: it is at its optimum, and anything harms it."""
    state = Payload(weights={"w": tensor([1.0])})
    uploads = [upload(0, 1, [1.0]), upload(1, 1, [0.0])]
    new = FedMGDA(epsilon=1.0).aggregate(server(), state, uploads)
    assert new["weights"]["w"].item() == pytest.approx(1.0)


@given(st.integers(0, 2**31), st.integers(1, 12), st.floats(0, 1))
@example(99999999, 9, 0.25)  # where exchanges between pairs alone take very long
def test_the_mixture_is_feasible_and_no_exchange_of_weight_shortens_it(
    seed: int, clients: int, epsilon: float
) -> None:
    random = np.random.default_rng(seed)
    updates = random.standard_normal((clients, int(random.integers(1, 8))))
    centre = random.dirichlet(np.ones(clients))
    products = updates @ updates.T
    weights = min_norm_weights(products, centre, epsilon)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= -1e-12).all()
    assert (np.abs(weights - centre) <= epsilon + 1e-12).all()
    slope = products @ weights
    low, high = np.maximum(centre - epsilon, 0), np.minimum(centre + epsilon, 1)
    falls, grows = weights > low + 1e-9, weights < high - 1e-9
    if falls.any() and grows.any():
        assert slope[falls].max() - slope[grows].min() <= 1e-9 * max(1, products.max())


def test_with_exact_gradients_and_a_small_step_no_clients_loss_grows(tmp_path: Path) -> None:
    def worsened(federation: Quadratics) -> float:
        """The largest rise of any client's loss in any round."""
        found = [federation.losses(w) for w in federation.history]
        rises = (
            b - a
            for before, after in itertools.pairwise(found)
            for a, b in zip(before, after, strict=True)
        )
        return max(rises)

    harmed = 0
    for seed in range(3):
        federation = random_quadratics(seed)
        start = torch.full((3,), 4.0)  # far from what any of them wants
        ours = FedMGDA(epsilon=1.0, normalise=False)
        end = federation.run(ours, tmp_path, 15, start=start, lr=0.9)
        assert worsened(federation) < 1e-9
        assert sum(federation.losses(end)) < 0.5 * sum(federation.losses(start))
        federation.run(fedkf.FedAvg(), tmp_path, 15, start=start, lr=0.9)
        harmed += worsened(federation) > 1e-3
    assert harmed == 3  # the plain mean of the same gradients does worsen somebody


def test_normalised_updates_give_a_direction_that_descends_for_everybody(tmp_path: Path) -> None:
    for seed in range(3):
        federation = random_quadratics(seed)
        start = torch.full((3,), 4.0)
        step = FedMGDA(epsilon=1.0, server_lr=0.01)
        after = federation.run(step, tmp_path, 1, start=start, lr=0.1)
        pairs = zip(federation.losses(start), federation.losses(after), strict=True)
        assert all(b < a for a, b in pairs)


def test_the_odd_site_fares_better_than_under_fedavg() -> None:
    assert score("fedmgda")["wlp"] > score("fedavg")["wlp"] + 0.2


def test_buffers_are_averaged_as_in_fedavg(settings: Settings, tmp_path: Path) -> None:
    ours = fedkf.run(settings, algorithm="fedmgda", model=Unsteady, rounds=1, out=tmp_path / "a")
    plain = fedkf.run(settings, algorithm="fedavg", model=Unsteady, rounds=1, out=tmp_path / "b")
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        a, b = (run.weights["aca"][f"body.1.{name}"] for run in (ours, plain))
        assert torch.equal(a, b)
    assert model_bytes(tmp_path / "a") != model_bytes(tmp_path / "b")
