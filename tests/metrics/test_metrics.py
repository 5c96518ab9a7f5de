"""AMP, FM and WLP."""

from __future__ import annotations

import pytest

from fedkf import metrics


@pytest.mark.parametrize(
    ("accuracies", "amp", "fm", "wlp"),
    [
        ([0.6, 0.7, 0.8], 0.7, 0.00667, 0.6),
        ([0.65, 0.65, 0.8], 0.7, 0.005, 0.65),
        ([0.7, 0.8, 0.9], 0.8, 0.00667, 0.7),
    ],
)
def test_the_papers_numerical_example(
    accuracies: list[float], amp: float, fm: float, wlp: float
) -> None:
    assert metrics.amp(accuracies) == pytest.approx(amp)
    assert metrics.fm(accuracies) == pytest.approx(fm, abs=5e-6)
    assert metrics.wlp(accuracies) == pytest.approx(wlp)


def test_amp_is_the_pooled_accuracy() -> None:
    correct, tested = [3, 0, 40], [10, 1, 50]
    accuracies = [c / n for c, n in zip(correct, tested, strict=True)]
    assert metrics.amp(accuracies, tested) == pytest.approx(43 / 61)


def test_clients_without_test_data_are_left_out() -> None:
    assert metrics.amp([0.5, None, 1.0], [1, 0, 1]) == 0.75
    assert metrics.fm([0.5, None, 1.0]) == pytest.approx(0.0625)
    assert metrics.wlp([0.5, None, 1.0]) == 0.5
    with pytest.raises(ValueError, match="no client has test data"):
        metrics.wlp([None])


def test_sizes_must_match() -> None:
    with pytest.raises(ValueError, match="2 accuracies but 1 sizes"):
        metrics.amp([0.5, 0.6], [1])


def test_tenths_of_clients_are_rounded_up() -> None:
    """Of eleven clients the worst two count, of ten and of three the worst one."""
    assert metrics.worst10([k / 10 for k in range(11)]) == pytest.approx(0.05)
    assert metrics.worst10([k / 10 + 0.1 for k in range(10)]) == pytest.approx(0.1)
    assert metrics.worst10([0.4, 0.2, 0.3]) == pytest.approx(0.2)
