"""The paper's tables agree with themselves: marks, speedups and products are recomputed."""

from __future__ import annotations

import itertools

import pytest

from fedkf.metrics import METRICS
from fedkf.paper import published
from fedkf.paper.published import ALPHAS, COMPARED, DATA, PAPER_METRICS, Case, marks

SOLUTIONS = [
    *((name, "aca") for name in COMPARED),
    ("fedkf-", "oca"),
    ("fedkf", "oca"),
]


def test_every_cell_is_there() -> None:
    expected = {
        Case(data, alpha, *solution, metric)
        for data, alpha, solution, metric in itertools.product(
            DATA, ALPHAS, SOLUTIONS, PAPER_METRICS
        )
    }
    assert set(published.performance()) == expected
    assert len(expected) == 243
    assert set(published.rounds_to_target()) == {(d, *s) for d in DATA for s in SOLUTIONS}
    assert set(published.time_to_target()) == set(published.rounds_to_target())
    assert set(published.time()) == set(itertools.product(DATA, COMPARED))
    assert set(published.t1()) == set(itertools.product(DATA, ("aca", "oca"), PAPER_METRICS))
    assert list(published.operations()) == list(COMPARED)
    assert set(published.distillation()) == set(DATA)
    assert len(published.rows("solutions")) == 10


@pytest.mark.parametrize("metric", PAPER_METRICS)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("data", DATA)
def test_bold_and_underline_are_the_best_and_the_second(
    data: str, alpha: float, metric: str
) -> None:
    column = {
        case: cell
        for case, cell in published.performance().items()
        if (case.data, case.alpha, case.metric) == (data, alpha, metric)
    }
    means = {case: cell.mean for case, cell in column.items()}
    assert marks(means, not METRICS[metric].higher_is_better) == {
        c: v.mark for c, v in column.items()
    }


def test_the_exponent_of_fm_differs_between_columns() -> None:
    exponents = {
        (r["data"], r["alpha"]): r["exponent"]
        for r in published.rows("performance")
        if r["metric"] == "fm"
    }
    hundredths = {("emnist", "0.01"), ("cifar10", "0.1"), ("cifar10", "0.01"), ("cifar100", "0.01")}
    assert {column for column, e in exponents.items() if e == "-2"} == hundredths
    assert {e for column, e in exponents.items() if column not in hundredths} == {"-3"}
    cells = published.performance()
    assert cells[Case("emnist", 0.1, "fedavg", "aca", "fm")].mean == 0.007972
    assert cells[Case("cifar10", 0.1, "fedavg", "aca", "fm")].mean == 0.01807
    assert cells[Case("cifar100", 0.01, "fedkf", "oca", "wlp")].mean == 0.0871
    # 2.780 and 2.358 are printed for α = 0.01 and 0.1: the larger number is ten times larger.
    assert cells[Case("emnist", 0.01, "fedkf", "oca", "fm")].mean == 0.0278


def test_fedavg_is_the_same_in_both_tables() -> None:
    for (data, readout, metric), cell in published.t1().items():
        if readout == "aca":
            large = published.performance()[Case(data, 0.1, "fedavg", "aca", metric)]
            assert (cell.mean, cell.std) == (large.mean, large.std)


def test_speedups_are_quotients_of_rounds() -> None:
    for reached in published.rounds_to_target().values():
        if reached.within:
            assert reached.speedup == pytest.approx(100 / reached.amount, abs=0.05)


def test_time_to_target_is_rounds_times_time_of_a_round() -> None:
    for key, reached in published.time_to_target().items():
        rounds, whole = published.rounds_to_target()[key], published.time()[key[:2]]
        product = rounds.amount * whole / 100
        if reached.within:
            assert reached.amount == pytest.approx(product, abs=1)
        elif rounds.within:  # more time than FedAvg's 100 rounds, though fewer rounds
            assert product > reached.amount == published.time()[key[0], "fedavg"]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("table", [published.rounds_to_target, published.time_to_target])
def test_the_fastest_is_bold(table: object, data: str) -> None:
    reached = {k: v for k, v in table().items() if k[0] == data}  # type: ignore[operator]
    least = marks({k: v.amount for k, v in reached.items()}, lower=True)
    bold = {k for k, v in reached.items() if v.mark == "best"}
    assert bold == {k for k, mark in least.items() if mark == "best"}


def test_one_cell_contradicts_another_table() -> None:
    """FedGKD on EMNIST ends above FedAvg, yet is said not to reach FedAvg's AMP in 100 rounds."""
    cells, odd = published.performance(), []
    for (data, algorithm, readout), reached in published.rounds_to_target().items():
        target = cells[Case(data, 0.1, "fedavg", "aca", "amp")].mean
        final = cells[Case(data, 0.1, algorithm, readout, "amp")].mean
        if final >= target and not reached.within:
            odd.append((data, algorithm))
    assert odd == [("emnist", "fedgkd")]
