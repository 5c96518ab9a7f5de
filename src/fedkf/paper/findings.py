"""The paper's findings F1 to F6 as decision rules over a table of scores.

A finding that says "is the best" must hold in every cell; one that says "under most cases" in more
than half of them. The same rules judge the paper's own numbers and ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkf.metrics import METRICS
from fedkf.paper import published
from fedkf.paper.published import COMPARED, DATA, PAPER_METRICS, Case
from fedkf.paper.scales import STANDS_FOR

Scores = Mapping[Case, float]
Outcome = bool | None
"""Whether a cell agrees with the finding; None where a number is missing."""

OURS = (("fedkf-", "aca"), ("fedkf-", "oca"), ("fedkf", "aca"), ("fedkf", "oca"))
OTHERS = tuple((name, "aca") for name in COMPARED if not name.startswith("fedkf"))
SOLUTIONS = (*OTHERS, *OURS)
HARD, MIDDLE, EASY = 0.01, 0.1, 1.0


@dataclass(frozen=True)
class Verdict:
    """What a rule says about some scores."""

    finding: str
    claim: str
    rule: str
    verdict: str  # holds, fails or not decidable here
    counts: str
    agree: int
    known: int
    total: int


@dataclass(frozen=True)
class Part:
    """One countable statement of a finding."""

    rule: str
    needed: str  # "every" or "most"
    cells: Callable[[Scores, Sequence[str]], Iterator[Outcome]]


# -- comparing -------------------------------------------------------------------------------------


def better(a: float | None, b: float | None, metric: str) -> Outcome:
    """Whether a is better than b; equal is not better."""
    if a is None or b is None:
        return None
    return a > b if METRICS[metric].higher_is_better else a < b


def gain(a: float | None, b: float | None, metric: str) -> float | None:
    """By how much a is better than b."""
    if a is None or b is None:
        return None
    return a - b if METRICS[metric].higher_is_better else b - a


def rank(scores: Scores, data: str, alpha: float, solution: tuple[str, str], metric: str) -> int:
    """How many of the paper's solutions are better, plus one."""
    own = scores[Case(data, alpha, *solution, metric)]
    others = (scores.get(Case(data, alpha, *other, metric)) for other in SOLUTIONS)
    return 1 + sum(bool(better(other, own, metric)) for other in others)


def complete(scores: Scores, data: str, alpha: float, metric: str) -> bool:
    """Whether every solution of the paper has a score there."""
    return all(Case(data, alpha, *solution, metric) in scores for solution in SOLUTIONS)


# -- the findings ----------------------------------------------------------------------------------


def f1(scores: Scores, data: Sequence[str]) -> Iterator[Outcome]:
    for name in data:
        champion = ("fedkf-", "oca") if STANDS_FOR.get(name) == "emnist" else ("fedkf", "oca")
        for alpha in (MIDDLE, HARD):
            for metric in PAPER_METRICS:
                known = complete(scores, name, alpha, metric)
                yield rank(scores, name, alpha, champion, metric) == 1 if known else None


def f2(scores: Scores, data: Sequence[str]) -> Iterator[Outcome]:
    for name in data:
        for metric in PAPER_METRICS:
            if not complete(scores, name, EASY, metric):
                yield None
                continue
            yield any(rank(scores, name, EASY, solution, metric) <= 2 for solution in OURS)


def pairs(
    winner: tuple[str, str], loser: tuple[str, str]
) -> Callable[[Scores, Sequence[str]], Iterator[Outcome]]:
    """Whether one solution is better than another, for all α and metrics."""

    def cells(scores: Scores, data: Sequence[str]) -> Iterator[Outcome]:
        for name in data:
            for alpha in (EASY, MIDDLE, HARD):
                for metric in PAPER_METRICS:
                    a, b = (scores.get(Case(name, alpha, *s, metric)) for s in (winner, loser))
                    yield better(a, b, metric)

    return cells


def grows(
    winner: tuple[str, str], loser: tuple[str, str]
) -> Callable[[Scores, Sequence[str]], Iterator[Outcome]]:
    """Whether the lead of one solution over another is larger at α = 0.01 than at α = 1."""

    def cells(scores: Scores, data: Sequence[str]) -> Iterator[Outcome]:
        for name in data:
            for metric in PAPER_METRICS:
                leads = []
                for alpha in (EASY, HARD):
                    a, b = (scores.get(Case(name, alpha, *s, metric)) for s in (winner, loser))
                    leads.append(gain(a, b, metric))
                easy, hard = leads
                yield None if easy is None or hard is None else hard > easy

    return cells


def several(
    rules: Sequence[Callable[[Scores, Sequence[str]], Iterator[Outcome]]],
) -> Callable[[Scores, Sequence[str]], Iterator[Outcome]]:
    """The cells of several rules as one."""

    def cells(scores: Scores, data: Sequence[str]) -> Iterator[Outcome]:
        for rule in rules:
            yield from rule(scores, data)

    return cells


FINDINGS: dict[str, tuple[str, Sequence[Part]]] = {
    "F1": (
        "FedKF- (OCA) is the best on EMNIST and FedKF (OCA) on CIFAR at α = 0.1 and 0.01",
        [Part("is the best of the nine solutions, every α ≤ 0.1 and metric", "every", f1)],
    ),
    "F2": (
        "at α = 1 at least one of the four FedKF variants is among the top two",
        [Part("some variant ranks first or second, every metric", "every", f2)],
    ),
    "F3": (
        "FedKF is better than FedGen on all data sets",
        [
            Part(
                "FedKF (ACA) and FedKF (OCA) against FedGen, every α and metric",
                "every",
                several([pairs(("fedkf", r), ("fedgen", "aca")) for r in ("aca", "oca")]),
            )
        ],
    ),
    "F4": (
        "OCA is mostly better than ACA, and the more so the smaller α",
        [
            Part(
                "OCA against ACA of FedKF- and FedKF, all α and metrics",
                "most",
                several([pairs((name, "oca"), (name, "aca")) for name in ("fedkf-", "fedkf")]),
            ),
            Part(
                "OCA's lead over ACA at α = 0.01 against α = 1",
                "most",
                several([grows((name, "oca"), (name, "aca")) for name in ("fedkf-", "fedkf")]),
            ),
        ],
    ),
    "F5": (
        "FedKF is mostly better than its communication-efficient variant FedKF-",
        [
            Part(
                "FedKF against FedKF- within each readout, all α and metrics",
                "most",
                several([pairs(("fedkf", r), ("fedkf-", r)) for r in ("aca", "oca")]),
            )
        ],
    ),
    "F6": (
        "the lead of the FedKF variants over other solutions mostly grows as α falls",
        [
            Part(
                "each variant's lead over each other solution at α = 0.01 against α = 1",
                "most",
                several([grows(own, other) for own in OURS for other in OTHERS]),
            )
        ],
    ),
}


def judge(scores: Scores, data: Sequence[str]) -> list[Verdict]:
    """Every finding, judged by the scores on these data sets."""
    verdicts = []
    for name, (claim, parts) in FINDINGS.items():
        results = [_judge(part, list(part.cells(scores, data))) for part in parts]
        words = [word for word, *_ in results]
        verdict = next((w for w in ("fails", "not decidable here") if w in words), "holds")
        counts = "; ".join(
            f"{agree} of {total} cells" + (f" ({total - known} unknown)" if known < total else "")
            for _, agree, known, total in results
        )
        rule = "; ".join(f"{part.rule} ({part.needed})" for part in parts)
        sums = [sum(numbers) for numbers in zip(*(r[1:] for r in results), strict=True)]
        verdicts.append(Verdict(name, claim, rule, verdict, counts, *sums))
    return verdicts


def _judge(part: Part, outcomes: Sequence[Outcome]) -> tuple[str, int, int, int]:
    """Decided only if the missing cells could not change the answer."""
    total, known = len(outcomes), sum(o is not None for o in outcomes)
    agree = sum(o is True for o in outcomes)
    against = known - agree
    if part.needed == "every":
        word = "fails" if against else "holds" if known == total and total else ""
    else:
        word = "holds" if 2 * agree > total else "fails" if total and 2 * against >= total else ""
    return word or "not decidable here", agree, known, total


def published_scores() -> dict[Case, float]:
    return {case: cell.mean for case, cell in published.performance().items()}


def judge_published() -> list[Verdict]:
    """The findings against the paper's own numbers."""
    return judge(published_scores(), list(DATA))
