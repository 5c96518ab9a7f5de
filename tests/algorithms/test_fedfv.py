"""FedFV: its oracle, projections by hand, and that α = 1 with τ = 0 is FedAvg."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from checks import Normed, is_fedavg
from conftest import Settings
from helpers import server, upload
from numpy.typing import NDArray
from oracle import agree
from torch import nn, tensor
from world import State, World, mean, networks, quadratics

from fedkf.algorithms.fedfv import FedFV, external
from fedkf.core.payload import Payload
from fedkf.paper.operations import measure

Vector = NDArray[np.float64]


def fedfv(world: World, alone: int, tau: int, seen: list[str] | None = None) -> Iterator[State]:
    """Algorithms 1 to 3; `alone` clients of highest loss keep their gradients."""
    w, names = world.w0, world.learned()
    history: dict[int, tuple[int, Vector]] = {}
    for t, active in enumerate(world.active, 1):
        local = {k: world.train(w, world.batches(t, k)) for k in active}
        g = {k: np.concatenate([(w[n] - m[n]).flatten() for n in names]) for k, m in local.items()}
        order = sorted(active, key=lambda k: world.whole_loss(w, k))
        turned = {k: v.copy() for k, v in g.items()}
        for k in order[: len(order) - alone]:
            for j in order:
                if j != k and turned[k] @ g[j] < 0:
                    turned[k] = turned[k] - turned[k] @ g[j] / (g[j] @ g[j]) * g[j]
                    if seen is not None:
                        seen.append("internal")
        share = {k: world.sizes[k] / sum(world.sizes[i] for i in active) for k in active}
        plain, step = (np.sum([share[k] * v[k] for k in active], 0) for v in (g, turned))
        for age in range(tau, 0, -1) if t > tau else ():
            old = [v for k, (when, v) in history.items() if when == t - age and k not in active]
            odd = [v for v in old if step @ v < 0]
            if odd:
                against = np.sum(odd, 0)
                step = step - step @ against / (against @ against) * against
                if seen is not None:
                    seen.append(f"external {age}")
        step = step / np.linalg.norm(step) * np.linalg.norm(plain)
        history |= {k: (t, g[k]) for k in active}
        parts = torch.from_numpy(step).split([w[n].numel() for n in names])
        new = {n: w[n] - part.view_as(w[n]) for n, part in zip(names, parts, strict=True)}
        w = {**mean([world.sizes[k] for k in active], [local[k] for k in active]), **new}
        yield w


ACTIVE = ((0, 1, 2), (1, 2, 3), (3, 4, 5), (1, 2, 4), (0, 3, 5), (3, 4, 5), (1, 4, 5), (1, 2, 4))
WORLDS = [
    quadratics(active=ACTIVE),
    quadratics(active=ACTIVE, momentum=0.5, weight_decay=0.05),
    networks(norm=True, active=ACTIVE),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("alpha", "alone", "tau"), [(0.0, 0, 0), (0.0, 0, 3), (0.1, 1, 1), (0.5, 2, 3)]
)
def test_it_is_its_oracle(world: World, alpha: float, alone: int, tau: int) -> None:
    agree(world, FedFV(alpha=alpha, tau=tau), fedfv(world, alone, tau))


def test_all_kinds_of_conflicts_occur_in_these_worlds() -> None:
    seen: list[str] = []
    for world in WORLDS:
        list(fedfv(world, 0, 3, seen))
    assert {"internal", "external 1", "external 2", "external 3"} <= set(seen)


def test_the_first_rounds_have_too_little_to_look_back_on() -> None:
    """The absent client is at odds with the step, and heeded only after τ rounds."""
    past = Payload(weights={"w": tensor([0.0, 0.0])}, updates={"7": tensor([-1.0, 0.0]).double()})
    uploads = [upload(0, 1, [-2.0, -1.0], local_loss={"value": 1.0})]
    here, found = server(), []
    for number in (2, 3, 4):
        here.round = number
        state = past.add("rounds", {"7": number - 1})
        found.append(FedFV(tau=3).aggregate(here, state, uploads)["weights"]["w"].tolist())
    assert found[:2] == [[-2.0, -1.0]] * 2
    assert found[2] == pytest.approx([0.0, -math.sqrt(5)])


def test_an_absent_clients_update_worked_out_by_hand() -> None:
    # (2, 1) is at odds with (−1, 0) and (−1, 1), not with (1, 1); their sum is (−2, 1):
    # (2, 1) − (−3/5) (−2, 1) = (0.8, 1.6).
    past = [tensor([-1.0, 0.0]), tensor([-1.0, 1.0]), tensor([1.0, 1.0])]
    assert external(tensor([2.0, 1.0]), past).tolist() == pytest.approx([0.8, 1.6])
    assert external(tensor([2.0, 1.0]), []).tolist() == [2.0, 1.0]


def test_updates_that_undo_each_other_leave_no_step() -> None:
    """Both are projected to nothing: there is no direction, so the model stays where it is."""
    uploads = [
        upload(0, 1, [4.0], local_loss={"value": 1.0}),
        upload(1, 1, [8.0], local_loss={"value": 2.0}),
    ]
    state = Payload(weights={"w": tensor([5.0])}, updates={}, rounds={})
    here = server()
    here.round = 1
    assert FedFV(alpha=0.0).aggregate(here, state, uploads)["weights"]["w"].item() == 5.0
    assert FedFV(alpha=1.0).aggregate(here, state, uploads)["weights"]["w"].item() == 6.0


def test_the_length_of_the_mean_is_kept() -> None:
    # w = (0, 0); updates (2, 0) and (−1, 1) of equal sizes: mean (½, ½). The first loses its part
    # along the second: (2, 0) + (−1, 1) = (1, 1); the second its part along the first: (0, 1).
    # Their mean (½, 1) is brought to the length of (½, ½).
    uploads = [
        upload(0, 1, [-2.0, 0.0], local_loss={"value": 1.0}),
        upload(1, 1, [1.0, -1.0], local_loss={"value": 2.0}),
    ]
    state = Payload(weights={"w": tensor([0.0, 0.0])}, updates={}, rounds={})
    here = server()
    here.round = 1
    new = FedFV(alpha=0.0).aggregate(here, state, uploads)["weights"]["w"]
    scale = math.sqrt(0.5 / 1.25)
    assert new.tolist() == pytest.approx([-0.5 * scale, -1.0 * scale])


@pytest.mark.parametrize("model", [None, Normed])
def test_with_all_left_alone_it_is_fedavg_byte_for_byte(
    settings: Settings, tmp_path: Path, model: type[nn.Module] | None
) -> None:
    is_fedavg(settings, tmp_path, "fedfv", model, alpha=1.0, tau=0)


def test_losses_are_what_it_discloses() -> None:
    assert measure(FedFV())["discloses"] == ["weights", "local_loss"]
