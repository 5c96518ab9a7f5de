"""The advice: which differences are told, the verdicts that follow, and the sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedkf.core.objective import Binary, Classification, Regression, Survival, uncommon
from fedkf.metrics.intervals import wilson
from fedkf.runs.verdicts import (
    ALONE,
    AVERAGED,
    PERSONAL,
    SHARED,
    Gain,
    Judged,
    advice,
    judge,
    nothing,
    overall,
    sign_test,
    told,
    verdict_of,
)


def site(name: str, alone: float, shared: float, personal: float, spread: float = 0.01) -> Judged:
    """A site whose draws scatter by so much around what was found, each way by itself."""
    values = {ALONE: alone, AVERAGED: shared, SHARED: shared, PERSONAL: personal}
    random = np.random.default_rng(len(name))
    draws = {way: value + spread * random.standard_normal(200) for way, value in values.items()}
    return Judged(name, 50, values, draws)


def test_who_gains_and_who_is_better_off_alone() -> None:
    found = judge(
        [
            site("north", 0.70, 0.79, 0.79),
            site("east", 0.70, 0.74, 0.74),
            site("south", 0.80, 0.60, 0.80),
            site("west", 0.70, 0.70, 0.80),
            site("middle", 0.70, 0.705, 0.70),
        ]
    )
    assert [s.verdict for s in found] == ["shared", "shared", "either", "personal", "open"]
    assert advice(found, Gain()) == (
        "north and east gain 4–9 points from the shared model; west gains 10 points once the "
        "shared model is made its own; south loses 20 points by the shared model and is better "
        "off alone or personalised; for middle there is no difference beyond chance."
    )


def test_nothing_is_told_beyond_chance() -> None:
    sites = [site(name, 0.7, 0.72, 0.71, spread=0.1) for name in ("a", "bb", "ccc")]
    found = judge(sites)
    assert {s.verdict for s in found} == {"open"}
    together = overall(sites, SHARED, ALONE)
    assert together.value == pytest.approx(0.02)
    assert advice(found, together) == (
        "At none of the 3 sites is there a difference beyond chance."
    )


def test_what_no_site_can_tell_alone_all_can_tell_together() -> None:
    # Each site's gain of 10 points is 1.4 standard errors; the mean over 25 sites is 7 of them.
    sites = [site("n" * k, 0.7, 0.8, 0.8, spread=0.05) for k in range(1, 26)]
    together = overall(sites, SHARED, ALONE)
    assert together.interval is not None
    assert 0.06 < together.interval[0] < 0.1 < together.interval[1] < 0.14
    assert together.chance < 1e-6
    open_ = [s for s in judge(sites) if s.verdict == "open"]
    assert advice(open_, together).startswith(
        "Taken together the sites gain 10 points by the shared model, though at none of the"
    )


def test_where_lower_is_better_a_fall_is_a_gain() -> None:
    (found,) = judge([site("north", 2.0, 1.5, 1.5)], higher_is_better=False)
    assert found.verdict == "shared"
    assert found.shared.value == pytest.approx(0.5)
    assert advice([found], Gain(), unit=" of RMSE", scale=1.0) == (
        "north gains 0.5 of RMSE from the shared model."
    )


def test_a_site_with_few_tests_is_told_nothing() -> None:
    few = site("tiny", 0.0, 1.0, 1.0)
    found = judge([Judged(few.name, 3, few.values, few.draws)])
    assert found[0].verdict == "untested"
    assert advice(found, Gain()) == (
        "No site has test samples enough, or enough of the rarer kind, to tell."
    )


def test_a_metric_that_cannot_be_taken_is_no_lack_of_tests() -> None:
    ways = (ALONE, AVERAGED, SHARED, PERSONAL)
    draws = {way: np.full(200, np.nan) for way in ways}
    constant = Judged("north", 80, dict.fromkeys(ways), draws, rare=0)
    assert advice(judge([constant]), Gain(), label="AUROC") == (
        "AUROC cannot be said of any site: the test samples of each are all of one kind."
    )


def test_one_point_is_one_point() -> None:
    found = judge([site("north", 0.70, 0.71, 0.71, spread=0.001)])
    assert advice(found, Gain()) == "north gains 1 point from the shared model."


def test_an_interval_without_0_is_not_told_where_chance_is_likely() -> None:
    together = Gain(-0.03, (-0.06, -0.01), chance=0.2)
    assert not together.stands
    found = judge([site(name, 0.7, 0.72, 0.71, spread=0.1) for name in ("a", "bb")])
    assert advice(found, together).startswith("At none of the 2 sites")
    assert not Gain(0.03, (-0.01, 0.06), chance=0.01).stands
    assert Gain(0.03, (0.01, 0.06), chance=0.01).stands


def test_what_all_gain_by_models_of_their_own_is_told_too() -> None:
    found = judge([site(name, 0.7, 0.72, 0.71, spread=0.1) for name in ("a", "bb")])
    own, lost = Gain(0.083, (0.05, 0.12), 0.001), Gain(-0.04, (-0.06, -0.02), 0.001)
    gain = "8 points once the shared model is made their own, though at none"
    assert advice(found, Gain(), own).startswith(f"Taken together the sites gain {gain}")
    assert advice(found, lost, own).startswith(
        "Taken together the sites lose 4 points by the shared model and gain 8 points once it is "
        "made their own, though at none"
    )
    assert "their own" not in advice(found, own, own)


def test_draws_that_all_agree_have_no_interval() -> None:
    ways = (ALONE, AVERAGED, SHARED, PERSONAL)
    same = Judged("few", 7, dict.fromkeys(ways, 1.0), dict.fromkeys(ways, np.ones(200)))
    assert same.estimate(ALONE).interval is None


def test_accuracy_has_wilsons_interval() -> None:
    (found,) = judge([counted([0], [1])])
    assert found.ways[ALONE].interval == pytest.approx(wilson(0, 1))
    assert found.ways[SHARED].interval == pytest.approx(wilson(1, 1))
    assert wilson(1, 1)[0] < 0.25


def test_models_that_learned_nothing_of_two_classes_hear_of_the_task() -> None:
    assert nothing(two_classes=True).endswith(
        "may help, and of two classes --set data.task=binary, which judges by AUROC."
    )
    assert nothing(two_classes=False).endswith("federation.lr may help.")


def counted(alone: list[int], shared: list[int]) -> Judged:
    """A site whose right answers are known; every draw of all-or-nothing answers is the same."""
    answers = {ALONE: alone, AVERAGED: shared, SHARED: shared, PERSONAL: shared}
    hits = {way: np.array(given, bool) for way, given in answers.items()}
    places = np.random.default_rng(0).integers(len(alone), size=(200, len(alone)))
    values = {way: float(own.mean()) for way, own in hits.items()}
    draws = {way: own[places].mean(1) for way, own in hits.items()}
    return Judged("north", len(alone), values, draws, hits)


def test_five_answers_that_all_turned_are_no_certainty() -> None:
    site = counted([0] * 5, [1] * 5)
    assert site.gain(SHARED).chance == pytest.approx(2 / 2**5)
    assert overall([site], SHARED, ALONE).chance == pytest.approx(2 / 2**5)
    assert judge([site])[0].verdict == "open"
    assert overall([site, site], SHARED, ALONE).chance == pytest.approx(2 / 2**10)
    assert judge([counted([0] * 10, [1] * 10)])[0].verdict == "shared"


def test_right_answers_are_counted_where_the_ways_differ() -> None:
    # Of 20 samples 6 were gained and 1 was lost: 2 (1 + 7) / 2⁷.
    site = counted([0] * 6 + [1] * 14, [1] * 6 + [0] + [1] * 13)
    assert site.gain(SHARED).chance == pytest.approx(16 / 128)
    assert site.gain(SHARED, SHARED).chance == pytest.approx(1.0)
    assert sign_test(0, 0) == pytest.approx(1.0)
    # Two standard errors: 0.0455 by the normal distribution, 0.0466 with its correction.
    assert sign_test(5100, 4900) == pytest.approx(0.0466, abs=2e-4)


def test_draws_that_all_agree_say_no_more_than_their_samples_could() -> None:
    values = {ALONE: 0.0, AVERAGED: 1.0, SHARED: 1.0, PERSONAL: 1.0}
    draws = {way: np.full(200, value) for way, value in values.items()}
    assert Judged("few", 9, values, draws).gain(SHARED).value is None
    assert Judged("more", 10, values, draws).gain(SHARED).chance == pytest.approx(2 / 2**10)


def test_a_site_is_told_nothing_that_hangs_on_a_few_samples_of_the_rarer_kind() -> None:
    found = site("rare", 0.6, 0.9, 0.9)
    assert judge([replace(found, rare=1)])[0].verdict == "untested"
    assert replace(found, rare=5).gain(SHARED).chance == pytest.approx(2 / 2**5)
    assert judge([replace(found, rare=5)])[0].verdict == "open"
    assert judge([replace(found, rare=20)])[0].verdict == "shared"


def test_the_rarer_kind_is_counted_by_the_task() -> None:
    labels = torch.tensor([0, 1, 1, 2, 1])
    assert uncommon(Classification(), labels) == 2
    assert uncommon(Binary(), torch.tensor([1, 1, 1, 0])) == 1
    assert uncommon(Survival(), torch.tensor([[1.0, 0], [2, 1], [3, 0]])) == 1
    assert uncommon(Regression(), torch.tensor([1.0, 2])) is None


def test_many_looks_find_something_by_chance_which_is_not_told() -> None:
    # Of a hundred differences that are none, about five are below 0.05; by the rule none stands.
    chances = list((np.arange(100) + 0.5) / 100)
    assert sum(c <= 0.05 for c in chances) == 5
    assert not any(told(chances))
    assert told([*chances, 1e-5])[-1]


@pytest.mark.parametrize(
    ("shared", "personal", "verdict"),
    [
        *((1, 0, "shared"), (0, 1, "personal"), (-1, 1, "mended"), (-1, 0, "either")),
        *((-1, -1, "alone"), (0, 0, "open"), (0, -1, "open")),
    ],
)
def test_verdicts(shared: int, personal: int, verdict: str) -> None:
    assert verdict_of(shared, personal) == verdict


def test_sites_that_cannot_tell_are_named() -> None:
    few = [replace(site(name, 0.7, 0.8, 0.8), tested=3) for name in ("b", "c")]
    found = judge([site("north", 0.7, 0.705, 0.7), *few])
    assert advice(found, Gain()) == (
        "At the one site that can tell there is no difference beyond chance; b and c have too few "
        "tests, or of one kind, to tell."
    )
