"""What each task asks of a model, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from fedkf.core.errors import UserError
from fedkf.core.objective import (
    Binary,
    Classification,
    Objective,
    Regression,
    Survival,
    cox_loss,
    find,
)

LOG2 = math.log(2)


def test_a_model_has_an_output_for_each_class_or_one() -> None:
    assert Classification().outputs(5) == 5
    assert [kind().outputs(2) for kind in (Binary, Regression, Survival)] == [1, 1, 1]


def test_cross_entropy_weighs_classes_and_stays_a_mean() -> None:
    logits = tensor([[0.0, 0.0], [0.0, math.log(3)]])
    # −log ½ and −log ¼ count 1 and 3: (log 2 + 3 · 2 log 2) / 4
    found = Classification(weights=(3.0, 1.0)).loss(logits, tensor([1, 0]))
    assert found.item() == pytest.approx((LOG2 + 3 * 2 * LOG2) / 4)


def test_balanced_weights_are_a_clients_own() -> None:
    shared = Classification(balanced=True)
    own = shared.of_client(tensor([0, 0, 0, 2]), 3)
    assert own.weights == pytest.approx([4 / 6, 1, 2])
    assert shared.weights is None
    plain = Classification()
    assert plain.of_client(tensor([0, 1]), 2) is plain


def test_binary_loss_is_cross_entropy_of_one_logit() -> None:
    outputs, targets = tensor([[0.0], [math.log(3)]]), tensor([1, 0])
    assert Binary().loss(outputs, targets).item() == pytest.approx((LOG2 + 2 * LOG2) / 2)
    weighted = Binary(weights=(1.0, 3.0)).loss(outputs, targets)
    assert weighted.item() == pytest.approx((3 * LOG2 + 2 * LOG2) / 4)


def test_binary_is_two_class_classification_with_the_logits_0_and_z() -> None:
    z, targets = torch.randn(6, 1), tensor([0, 1, 1, 0, 1, 0])
    binary, classes = Binary(), Classification()
    pairs = binary.logits(z)
    torch.testing.assert_close(pairs.softmax(1)[:, 1], binary.predict(z))
    torch.testing.assert_close(binary.loss(z, targets), classes.loss(pairs, targets))
    taught = torch.randn(6, 1)
    expected = classes.distil(binary.logits(taught), pairs)
    torch.testing.assert_close(binary.distil(taught, z), expected)


def test_binary_distillation_is_kl_between_bernoullis() -> None:
    teacher, student = tensor([[math.log(3)]]), tensor([[0.0]])  # ¾ and ½
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert Binary().distil(teacher, student).item() == pytest.approx(expected)


def test_regression_is_squared_error_of_targets_and_teachers() -> None:
    outputs = tensor([[1.0], [4.0]])
    assert Regression().loss(outputs, tensor([3.0, 4.0])).item() == 2
    assert Regression().distil(tensor([[1.0], [1.0]]), outputs).item() == 4.5


def test_cox_loss_is_breslows_partial_likelihood_over_the_events() -> None:
    # Risks e^r are 1, 2, 4, 1; events at 1 (first), at 3 twice (second, third); the last is
    # censored at 3 and so at risk with both.
    risks = tensor([0.0, LOG2, 2 * LOG2, 0.0])
    times, events = tensor([1.0, 3.0, 3.0, 3.0]), tensor([1.0, 1.0, 1.0, 0.0])
    expected = (math.log(8) + math.log(7 / 2) + math.log(7 / 4)) / 3
    assert cox_loss(risks, times, events).item() == pytest.approx(expected)
    order = tensor([2, 0, 3, 1])
    shuffled = cox_loss(risks[order], times[order], events[order])
    assert shuffled.item() == pytest.approx(expected)


def test_cox_loss_does_not_mind_a_constant_in_all_risks() -> None:
    risks, times = torch.randn(9), torch.rand(9)
    events = tensor([1.0, 0, 1, 1, 0, 0, 1, 0, 1])
    moved = cox_loss(risks + 7, times, events)
    torch.testing.assert_close(moved, cox_loss(risks, times, events))


def test_a_batch_without_events_has_no_loss_and_no_gradient() -> None:
    outputs = torch.randn(3, 1, requires_grad=True)
    loss = Survival().loss(outputs, tensor([[1.0, 0], [2, 0], [3, 0]]))
    loss.backward()
    assert loss.item() == 0
    assert outputs.grad is not None
    assert outputs.grad.eq(0).all()


def test_survival_distillation_compares_centred_risks() -> None:
    teacher, student = tensor([[1.0], [3.0]]), tensor([[10.0], [10.0]])
    assert Survival().distil(teacher, student).item() == 1
    assert Survival().distil(teacher, teacher + 5).item() == 0


class Absolute(Objective):
    name = "absolute"


def test_a_task_may_be_a_class_of_ones_own() -> None:
    assert find(f"{__name__}:Absolute") is Absolute
    with pytest.raises(UserError, match="not a subclass"):
        find("math:pi")
    with pytest.raises(UserError, match="did you mean 'survival'"):
        find("surviva")
