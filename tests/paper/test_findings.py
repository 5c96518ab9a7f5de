"""F1 to F6 as rules: on the paper's own numbers, and on tables made to decide one way."""

from __future__ import annotations

import pytest

from fedkf.paper.findings import OTHERS, OURS, SOLUTIONS, judge, judge_published, published_scores
from fedkf.paper.published import ALPHAS, PAPER_METRICS, Case


def verdicts(scores: dict[Case, float], data: list[str]) -> dict[str, str]:
    return {v.finding: v.verdict for v in judge(scores, data)}


def test_not_every_finding_holds_in_the_papers_own_tables() -> None:
    found = {v.finding: (v.verdict, v.counts) for v in judge_published()}
    assert found == {
        "F1": ("holds", "18 of 18 cells"),
        "F2": ("holds", "9 of 9 cells"),
        "F3": ("fails", "48 of 54 cells"),  # EMNIST at α = 1, among others
        "F4": ("holds", "42 of 54 cells; 16 of 18 cells"),
        "F5": ("fails", "27 of 54 cells"),  # exactly half is not most
        "F6": ("holds", "156 of 180 cells"),
    }


def test_a_table_in_which_fedkf_wins_more_the_harder_it_gets() -> None:
    order = [*OTHERS, ("fedkf-", "aca"), ("fedkf", "aca"), ("fedkf-", "oca"), ("fedkf", "oca")]
    scores = {}
    for alpha, step in zip(ALPHAS, (0.01, 0.02, 0.03), strict=True):
        for place, solution in enumerate(order):
            for metric in PAPER_METRICS:
                value = place * step
                scores[Case("cifar10", alpha, *solution, metric)] = (
                    1 - value if metric == "fm" else value
                )
    assert set(verdicts(scores, ["cifar10"]).values()) == {"holds"}
    upside_down = {case: -value for case, value in scores.items()}
    assert set(verdicts(upside_down, ["cifar10"]).values()) == {"fails"}


@pytest.mark.parametrize(
    ("left_out", "undecided"),
    [
        (("fedgen", "aca"), {"F1", "F2", "F3"}),  # a best of eight is no best of nine
        (("fedkf-", "oca"), {"F1", "F2", "F5"}),
    ],
)
def test_missing_rows_leave_open_what_they_could_change(
    left_out: tuple[str, str], undecided: set[str]
) -> None:
    scores = {
        case: value
        for case, value in published_scores().items()
        if case.data == "cifar100" and (case.algorithm, case.readout) != left_out
    }
    found = verdicts(scores, ["cifar100"])
    assert {f for f in ("F1", "F2", "F3", "F5") if found[f] == "not decidable here"} <= undecided
    assert found["F1"] == "not decidable here"


def test_nothing_is_decided_without_runs() -> None:
    assert set(verdicts({}, ["letters"]).values()) == {"not decidable here"}
    assert len(SOLUTIONS) == len(OURS) + len(OTHERS) == 9
