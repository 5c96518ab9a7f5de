"""Differences and their intervals, against tables of Student's t and numbers made by hand."""

from __future__ import annotations

import pytest

from fedkf.core.scores import Score, Sites
from fedkf.metrics import METRICS
from fedkf.runs.statistics import (
    Difference,
    over_clients,
    over_seeds,
    paired,
    student_quantile,
    within_pair,
    words,
)

AMP, FM, WLP = (METRICS[name] for name in ("amp", "fm", "wlp"))


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_students_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, abs=5e-4)
    assert student_quantile(degrees, 0.9) < quantile


def test_three_pairs_have_an_interval() -> None:
    # mean 2, standard deviation 1, so that the reach is 4.3027 / √3 = 2.4841
    found = over_seeds([0.01, 0.02, 0.03])
    assert found.mean == pytest.approx(0.02)
    assert found.seeds == 3
    assert found.interval == pytest.approx((0.02 - 0.024841, 0.02 + 0.024841), abs=1e-6)
    assert not found.beyond_chance
    assert over_seeds([0.019, 0.02, 0.021]).beyond_chance


def test_two_pairs_are_too_few_and_equal_runs_differ_by_nothing() -> None:
    assert over_seeds([0.01, 0.03]) == Difference(0.02, 2)
    assert not over_seeds([0.01, 0.03]).beyond_chance
    assert not over_seeds([0.0, 0.0, 0.0]).beyond_chance
    assert over_seeds([-0.1, -0.1, -0.1]).beyond_chance


def test_only_the_same_data_and_seed_are_paired() -> None:
    base, other = {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}, {("b", 0): 30, ("a", 0): 10, ("c", 0): 9}
    assert paired(base, other) == [(3, 30), (1, 10)]


def test_a_gain_that_every_client_has_is_certain_over_clients() -> None:
    base = [0.1, 0.3, 0.5, 0.7, 0.8]
    low, high = over_clients(AMP, base, [a + 0.1 for a in base], [1, 2, 3, 4, 5]) or (0, 0)
    assert (low, high) == pytest.approx((0.1, 0.1))


def test_a_gain_that_hangs_on_one_client_is_not() -> None:
    base, other = [0.5] * 5, [1.0, 0.5, 0.5, 0.5, 0.5]
    found = over_clients(AMP, base, other, [1] * 5)
    assert found is not None
    assert found == over_clients(AMP, base, other, [1] * 5)
    # The client is drawn b times of 5 with probability 1/5: never in 33 % of the draws, more than
    # three times in 0.7 %, so that the interval of b / 10 goes from 0 to 3 / 10.
    assert found == pytest.approx((0.0, 0.3))


def test_few_clients_and_unknown_test_sizes_have_no_interval() -> None:
    assert over_clients(WLP, [0.5] * 4, [0.6] * 4, [1] * 4) is None
    assert over_clients(AMP, [0.5] * 6, [0.6] * 6, [0] * 6) is None
    assert over_clients(AMP, [0.5] * 5, [None, *[0.6] * 4], [1] * 5) is None


def test_runs_that_tested_different_clients_are_compared_on_those_of_both() -> None:
    base = Score({"amp": 0.5, "wlp": 0.1}, range(8), [0.1] * 8)
    other = Score({"amp": 0.6, "wlp": 0.2}, range(2, 9), [0.2] * 7)
    found = within_pair(WLP, base, other, lambda client: None)
    assert found is not None
    assert found.mean == pytest.approx(0.1)
    assert found.clients == 6
    assert found.interval == pytest.approx((0.1, 0.1))
    weighted = within_pair(AMP, base, other, lambda client: None)
    assert weighted is not None
    assert (weighted.interval, weighted.clients) == (None, 0)
    assert within_pair(AMP, Score({"amp": None}), other, lambda client: 1) is None


def by_error(errors: list[float], name: str, value: float) -> Score:
    """Clients that are judged by how far they are off."""
    none = [None] * len(errors)
    return Score(
        {name: value}, range(len(errors)), none, metric="rmse", sites=Sites({"rmse": errors})
    )


@pytest.mark.parametrize("name", ["wlp", "worst10"])
def test_where_lower_is_better_the_worst_clients_are_the_highest(name: str) -> None:
    # The best client stays as it is, all others lose 1: only of those the interval is.
    before, after = [1.0, *[3.0] * 9], [1.0, *[4.0] * 9]
    found = within_pair(
        METRICS[name], by_error(before, name, 3.0), by_error(after, name, 4.0), lambda client: 1
    )
    assert found is not None
    assert found.interval == pytest.approx((1.0, 1.0))


def test_runs_that_are_judged_differently_have_no_difference() -> None:
    one = by_error([1.0] * 6, "amp", 1.0)
    assert within_pair(AMP, one, Score({"amp": 0.5}, range(6), [0.5] * 6), lambda k: 1) is None


@pytest.mark.parametrize(
    ("difference", "sentence"),
    [
        (Difference(0.023, 3, (0.004, 0.042)), "+2.3 points [0.4, 4.2] over 3 seeds"),
        (
            Difference(-0.003, 4, (-0.01, 0.004)),
            "-0.3 points [-1.0, 0.4] over 4 seeds, no difference beyond chance",
        ),
        (Difference(0.023, 2), "+2.3 points over 2 seeds, too few for an interval"),
        (
            Difference(0.023, 1, (0.01, 0.03), 20),
            "+2.3 points [1.0, 3.0], one seed: interval over 20 clients",
        ),
        (
            Difference(0.0, 1, (0.0, 0.0), 20),
            "+0.0 points [0.0, 0.0], one seed: interval over 20 clients, "
            "no difference beyond chance",
        ),
        (Difference(0.023, 1), "+2.3 points, one seed, no interval"),
    ],
)
def test_the_words_follow_from_the_interval(difference: Difference, sentence: str) -> None:
    assert words(difference, AMP) == sentence


def test_metrics_that_are_no_percentages_have_no_points() -> None:
    text = words(Difference(-0.0021, 3, (-0.003, -0.0012)), FM)
    assert text == "-0.0021 [-0.0030, -0.0012] over 3 seeds"
