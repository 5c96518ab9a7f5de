"""Drift: how far clients move from the model that they were sent."""

from __future__ import annotations

import pytest
import torch

from fedkf.core.arithmetic import distance
from fedkf.core.moves import drift


def test_it_is_the_mean_euclidean_distance_over_clients() -> None:
    sent = {"w": torch.zeros(2), "b": torch.zeros(1), "steps": torch.tensor(7)}
    near = {"w": torch.tensor([3.0, 4.0]), "b": torch.zeros(1), "steps": torch.tensor(9)}
    far = {"w": torch.tensor([2.0, 4.0]), "b": torch.tensor([4.0]), "steps": torch.tensor(9)}
    assert distance(sent, near) == 5.0  # whole numbers are no weights
    assert drift(sent, {4: near, 2: far}) == {"drift": pytest.approx(5.5)}
    assert drift(sent, {}) == {}
