"""Each loss of FedKF against a value worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from fedkf.algorithms.fedkf import (
    FedKF,
    activation_loss,
    information_entropy_loss,
    one_hot_loss,
)
from fedkf.core.objective import Classification
from fedkf.distillation.losses import kl_loss

# Logarithms of probabilities are logits that softmax gives back.
PROBABILITIES = tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
LOGITS = PROBABILITIES.log() + tensor([[3.0], [-2.0]])


def test_one_hot_loss_is_eq_2() -> None:
    # CE against the likeliest class: −(log 0.7 + log 0.6) / 2
    assert one_hot_loss(LOGITS).item() == pytest.approx(-(math.log(0.7) + math.log(0.6)) / 2)


def test_information_entropy_loss_is_eq_3() -> None:
    # The mean prediction is (0.4, 0.25, 0.35).
    expected = sum(p * math.log(p) for p in (0.4, 0.25, 0.35))
    assert information_entropy_loss(LOGITS).item() == pytest.approx(expected)
    scaled = 1 + expected / math.log(3)
    assert information_entropy_loss(LOGITS, scaled=True).item() == pytest.approx(scaled)


def test_scaled_entropy_is_zero_when_classes_are_even_and_one_for_a_single_class() -> None:
    assert information_entropy_loss(torch.zeros(4, 3), scaled=True).item() == pytest.approx(
        0, abs=1e-6
    )
    certain = tensor([[50.0, 0.0, 0.0]])
    assert information_entropy_loss(certain, scaled=True).item() == pytest.approx(1)


def test_information_entropy_is_finite_with_finite_gradient_at_probability_zero() -> None:
    logits = tensor([[200.0, 0.0, -200.0], [150.0, 20.0, -900.0]], requires_grad=True)
    assert logits.softmax(1)[:, 2].eq(0).all()
    loss = information_entropy_loss(logits)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_activation_loss_is_eq_4() -> None:
    features = tensor([[1.0, -2.0, 3.0], [0.0, 4.0, 0.0]])
    assert activation_loss(features).item() == -(6 + 4) / 2
    assert activation_loss(features, mean=True).item() == pytest.approx(-10 / 6)


def test_kl_loss_is_eq_6() -> None:
    # Against a student that finds all classes even: Σ p log(3 p), averaged over two samples.
    expected = sum(p * math.log(3 * p) for row in PROBABILITIES.tolist() for p in row) / 2
    assert kl_loss(PROBABILITIES, torch.zeros(2, 3)).item() == pytest.approx(expected, rel=1e-5)
    assert kl_loss(PROBABILITIES, LOGITS).item() == pytest.approx(0, abs=1e-6)


def test_kl_loss_is_finite_where_the_teacher_is_certain() -> None:
    assert kl_loss(tensor([[1.0, 0.0]]), tensor([[0.0, 200.0]])).item() == pytest.approx(200)


def test_cross_entropy_is_eq_7() -> None:
    expected = -(math.log(0.2) + math.log(0.6)) / 2
    assert Classification().loss(LOGITS, tensor([1, 2])).item() == pytest.approx(expected)


def test_the_generators_loss_is_eq_5() -> None:
    features = tensor([[1.0, -2.0, 3.0], [0.0, 4.0, 0.0]])
    loss = FedKF(lambda1=0.2, lambda2=0.02).generator_loss(features, LOGITS)
    expected = (
        information_entropy_loss(LOGITS)
        + 0.2 * one_hot_loss(LOGITS)
        + 0.02 * activation_loss(features)
    )
    assert loss.item() == pytest.approx(expected.item())
