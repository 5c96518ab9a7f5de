"""Robust means, against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from fedkf.core.payload import Weights
from fedkf.core.robust import CENTRES, geometric, krum, median, multikrum, trimmed


def points(*values: float) -> list[Weights]:
    return [{"w": tensor([float(value)])} for value in values]


def value(weights: Weights) -> float:
    return weights["w"].item()


def test_the_median_is_that_of_every_coordinate() -> None:
    models = [{"w": tensor([1.0, 30.0])}, {"w": tensor([2.0, 10.0])}, {"w": tensor([9.0, 20.0])}]
    assert median(models)["w"].tolist() == [2.0, 20.0]
    assert value(median(points(1, 2, 4, 1e30))) == 3.0


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ((5,), 5),
        ((1, 3), 2),  # of two, none can be spared
        ((1, 2, 1e9), 2),
        ((-1e9, 1, 3, 1e9), 2),
        # ⌈0.3 · 10⌉ = 3 at each end: the mean of 4, 5, 6 and 9
        ((1, 2, 3, 4, 5, 6, 9, 1e9, 1e9, 1e9), 6),
    ],
)
def test_the_trimmed_mean_leaves_out_three_tenths_at_each_end(
    values: tuple[float, ...], mean: float
) -> None:
    assert value(trimmed(points(*values))) == mean


def test_krum_takes_the_model_that_is_nearest_to_its_neighbours() -> None:
    # n = 7: f = min(⌈2.1⌉, 2) = 2, so the 3 nearest count. For 3: 1 + 1 + 4 = 6, which 2 has as
    # well (1 + 1 + 4), 4 has 1 + 4 + 9 = 14, 1 has 1 + 4 + 9 = 14; the first of the best is taken.
    assert value(krum(points(1, 2, 3, 4, 50, 1e6, -1e6))) == 2.0
    assert value(krum(points(7))) == 7.0
    assert value(krum(points(0, 9, 1000))) == 0.0  # f = 0, one neighbour: 0 and 9 are level


def test_multikrum_is_the_mean_of_all_but_the_suspects() -> None:
    # n = 7, f = 2: the five with the lowest scores; 50 is nearer to the others than ±1e6 are.
    assert value(multikrum(points(1, 2, 3, 4, 50, 1e6, -1e6))) == pytest.approx(60 / 5)
    assert value(multikrum(points(1, 3))) == 2.0


def test_the_geometric_median_is_fermats_point() -> None:
    # In a triangle without an angle of 120° all sides are seen from it at 120°.
    corners = [[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]]
    found = geometric([{"w": tensor(corner)} for corner in corners])["w"]
    assert found.tolist() == pytest.approx([2, 2 / math.sqrt(3)], abs=1e-4)
    # With one, it is that corner; on a line it is the median.
    flat = geometric([{"w": tensor(c)} for c in ([0.0, 0.0], [4.0, 0.0], [2.0, 0.1])])["w"]
    assert flat.tolist() == pytest.approx([2, 0.1], abs=1e-3)
    assert value(geometric(points(0, 1, 1e6))) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", CENTRES)
def test_three_lies_of_ten_do_not_matter(name: str) -> None:
    random = torch.Generator().manual_seed(3)
    honest = [{"w": torch.randn(50, generator=random), "n": tensor(k)} for k in range(7)]
    lies = [{"w": torch.full((50,), 1e15), "n": tensor(10**9)} for _ in range(3)]
    found = CENTRES[name]([*lies, *honest])
    assert found["w"].abs().max() < 4
    assert found["w"].dtype == torch.float32
    assert found["n"].item() < 10


@pytest.mark.parametrize("name", CENTRES)
def test_models_that_agree_are_their_own_centre(name: str) -> None:
    model = {"w": tensor([0.1, -2.5]), "n": tensor(3)}
    for count in (1, 2, 3, 8):
        found = CENTRES[name]([model] * count)
        assert torch.allclose(found["w"], model["w"])
        assert found["n"].item() == 3
