"""A site's metrics from its counts and sums: by hand, and next to scikit-learn on samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn import metrics as reference

from fedkf.core.objective import Binary, Classification, Regression, Survival
from fedkf.core.tally import bins, tally
from fedkf.metrics import formulas
from fedkf.metrics.formulas import BINS
from fedkf.metrics.sites import SITE_METRICS, value

Samples = tuple[torch.Tensor, NDArray[np.int64], NDArray[np.float64]]


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Logits of four classes, true classes of very different sizes, and probabilities."""
    random = np.random.default_rng(3)
    labels = random.choice(4, size=900, p=[0.7, 0.2, 0.07, 0.03])
    logits = random.normal(size=(900, 4))
    logits[np.arange(900), labels] += 1.2
    outputs = torch.from_numpy(logits).float()
    return outputs, labels, outputs.double().softmax(1).numpy()


@pytest.fixture(scope="module")
def statistics(samples: Samples) -> dict[str, NDArray[np.float64]]:
    outputs, labels, _ = samples
    wanted = ("confusion", "scores", "calibration")
    found = tally(outputs, torch.from_numpy(labels), Classification(), wanted, 4)
    return {name: tensor.numpy() for name, tensor in found.items()}


def test_balanced_accuracy_and_f1_are_scikit_learns(
    samples: Samples, statistics: dict[str, NDArray[np.float64]]
) -> None:
    outputs, labels, _ = samples
    answers = outputs.argmax(1).numpy()
    found = formulas.balanced_accuracy(statistics["confusion"])
    assert found == pytest.approx(reference.balanced_accuracy_score(labels, answers))
    expected = reference.f1_score(labels, answers, average="macro")
    assert formulas.macro_f1(statistics["confusion"]) == pytest.approx(expected)


def test_auroc_is_scikit_learns_to_the_resolution_that_it_states(
    samples: Samples, statistics: dict[str, NDArray[np.float64]]
) -> None:
    _, labels, shares = samples
    expected = reference.roc_auc_score(labels, shares, multi_class="ovr", average="macro")
    resolution = formulas.auroc_resolution(statistics["scores"])
    assert resolution < 0.005
    assert abs(formulas.auroc(statistics["scores"]) - expected) <= resolution


def test_average_precision_is_near_scikit_learns(
    samples: Samples, statistics: dict[str, NDArray[np.float64]]
) -> None:
    _, labels, shares = samples
    each = [reference.average_precision_score(labels == k, shares[:, k]) for k in range(4)]
    assert formulas.average_precision(statistics["scores"]) == pytest.approx(
        np.mean(each), abs=0.01
    )


def test_of_two_classes_only_the_second_has_scores_and_they_are_those_of_one_logit() -> None:
    random = np.random.default_rng(4)
    labels = random.integers(2, size=400)
    z = torch.from_numpy(random.normal(size=(400, 1)) + labels[:, None])
    one = tally(z, torch.from_numpy(labels), Binary(), ("scores",), 2)["scores"]
    two = torch.cat([torch.zeros_like(z), z], 1)
    assert one.shape == (1, 2, BINS)
    both = tally(two, torch.from_numpy(labels), Classification(), ("scores",), 2)["scores"]
    assert torch.equal(one, both)
    expected = reference.roc_auc_score(labels, z[:, 0])
    assert formulas.auroc(one.numpy()) == pytest.approx(expected, abs=0.002)
    expected = reference.average_precision_score(labels, z[:, 0])
    assert formulas.average_precision(one.numpy()) == pytest.approx(expected, abs=0.005)


def test_even_a_model_that_is_hardly_trained_or_always_sure_has_its_order() -> None:
    odds = torch.tensor([-0.02, -0.01, 0.01, 0.02, -12.0, -9.0, 9.0, 12.0])
    assert len(set(bins(odds).tolist())) == len(odds)
    assert bins(torch.tensor([-1e9, 0.0, 1e9, torch.nan])).tolist() == [0, 384, 767, 384]


def test_a_model_that_is_sure_beyond_any_probability_has_its_order_too() -> None:
    random = np.random.default_rng(5)
    labels = random.integers(2, size=300)
    z = torch.from_numpy(20 + 35 * random.random(300) * (0.5 + labels / 2))
    found = tally(z[:, None], torch.from_numpy(labels), Binary(), ("scores",), 2)["scores"].numpy()
    resolution = formulas.auroc_resolution(found)
    assert resolution < 0.01
    assert abs(formulas.auroc(found) - reference.roc_auc_score(labels, z)) <= resolution


def test_a_confusion_by_hand() -> None:
    # 8 of 10 of the first class, 1 of 4 of the second, none of the third, which is answered once.
    confusion = np.array([[8, 2, 0], [2, 1, 1], [0, 0, 0]])
    assert formulas.sensitivity(confusion)[:2].tolist() == [0.8, 0.25]
    assert np.isnan(formulas.sensitivity(confusion)[2])
    assert formulas.balanced_accuracy(confusion) == pytest.approx((0.8 + 0.25) / 2)
    assert formulas.macro_f1(confusion) == pytest.approx((16 / 20 + 2 / 7 + 0) / 3)


def test_calibration_by_hand() -> None:
    # Two answers with 0.9, one right; one with 0.6, right: (2/3)·|0.5 − 0.9| + (1/3)·|1 − 0.6|.
    shares = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]], dtype=torch.float64)
    targets = torch.tensor([0, 0, 0])
    cells = tally(shares.log(), targets, Classification(), ("calibration",), 2)["calibration"]
    assert formulas.ece(cells.numpy()) == pytest.approx(2 / 3 * 0.4 + 1 / 3 * 0.4)


def test_a_site_with_one_class_has_no_auroc_and_does_not_crash() -> None:
    outputs, labels = torch.randn(5, 1), torch.ones(5, dtype=torch.long)
    wanted = ("confusion", "scores", "calibration")
    found = {k: t.numpy() for k, t in tally(outputs, labels, Binary(), wanted, 2).items()}
    assert value(SITE_METRICS["auroc"], found) is None
    assert value(SITE_METRICS["average_precision"], found) is None
    assert value(SITE_METRICS["balanced_accuracy"], found) is not None


def test_a_site_without_samples_has_no_metric_at_all() -> None:
    none = {
        **tally(torch.zeros(0, 3), torch.zeros(0), Classification(), ("confusion", "scores"), 3),
        **tally(torch.zeros(0, 3), torch.zeros(0), Classification(), ("calibration",), 3),
        **tally(torch.zeros(0, 1), torch.zeros(0), Regression(), ("errors",), 0),
        **tally(torch.zeros(0, 1), torch.zeros(0, 2), Survival(), ("pairs",), 0),
        "counts": torch.zeros(2),
    }
    statistics = {name: tensor.numpy() for name, tensor in none.items()}
    scalars = [metric for metric in SITE_METRICS.values() if not metric.per_class]
    assert {value(metric, statistics) for metric in scalars} == {None}


def test_errors_are_scikit_learns() -> None:
    random = np.random.default_rng(5)
    targets = random.normal(1000, 20, size=80)
    predicted = targets + random.normal(size=80) * 8
    outputs = torch.from_numpy(predicted)[:, None]
    errors = tally(outputs, torch.from_numpy(targets), Regression(), ("errors",), 0)["errors"]
    expected = reference.mean_squared_error(targets, predicted) ** 0.5
    assert formulas.rmse(errors.numpy()) == pytest.approx(expected)
    assert formulas.r2(errors.numpy()) == pytest.approx(reference.r2_score(targets, predicted))


def test_targets_that_are_all_alike_have_no_r2() -> None:
    outputs = torch.tensor([[1.0], [2.0]])
    errors = tally(outputs, torch.tensor([3.0, 3.0]), Regression(), ("errors",), 0)["errors"]
    assert value(SITE_METRICS["r2"], {"errors": errors.numpy()}) is None
    assert value(SITE_METRICS["rmse"], {"errors": errors.numpy()}) == pytest.approx(2.5**0.5)


def test_concordance_by_hand() -> None:
    # An event at 1, an event at 2, censored at 2, an event at 3. Comparable: the first with the
    # other three, the second with the censored one (same time) and with the last.
    targets = torch.tensor([[1.0, 1], [2, 1], [2, 0], [3, 1]])
    risks = torch.tensor([[4.0], [1.0], [1.0], [2.0]])
    pairs = tally(risks, targets, Survival(), ("pairs",), 0)["pairs"]
    assert pairs[0].tolist() == [4, 2 * 3.5, 2 * 5]
    assert formulas.concordance(pairs.numpy()) == 0.7
