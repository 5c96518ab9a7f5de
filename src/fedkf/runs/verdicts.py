"""Advice: whether sites should train together, in a sentence that the numbers carry.

For every site there are three ways: its model alone, the shared model, the shared model made its
own. They are judged on the same test samples, so that what counts is the difference, with its
interval. Of many sites some differ by chance: a difference is only told if it stands when as many
were looked at (Benjamini and Hochberg, 1995).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkf.core.groups import FEWEST_RARE
from fedkf.metrics.intervals import spanned, wilson
from fedkf.metrics.sites import ONE_KIND
from fedkf.runs.statistics import CHANCE, CONFIDENCE

Draws = NDArray[np.float64]
Hits = NDArray[np.bool_]
Interval = tuple[float, float]

ALONE, AVERAGED, SHARED, PERSONAL = "alone", "fedavg", "shared", "personal"
FEWEST, FEWEST_DRAWN = 5, 10
"""With fewer test samples a site is told nothing; the second where right answers are not counted,
but draws alone say how much is chance."""
FALSE = 1 - CONFIDENCE
"""The share of told differences that may be chance."""
NAMED = 4
"""More sites than this are counted rather than named."""


@dataclass(frozen=True)
class Estimate:
    """A number and where it plausibly lies."""

    value: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Gain(Estimate):
    """By how much one way is better than another for a site; larger is better."""

    chance: float = 1.0
    """How often as much would be seen if there were no difference."""

    @property
    def stands(self) -> bool:
        """Whether it is beyond chance by itself: its interval leaves out 0, and chance is small."""
        if self.value is None or self.interval is None or self.chance > FALSE:
            return False
        return not self.interval[0] <= 0 <= self.interval[1]


NONE = Gain()


@dataclass(frozen=True)
class Judged:
    """A site's metric under every way: of its test samples, and of draws from them.

    The draws of all ways are of the same samples.
    """

    name: str
    tested: int
    values: Mapping[str, float | None]
    draws: Mapping[str, Draws] = field(repr=False)
    hits: Mapping[str, Hits] = field(default_factory=dict, repr=False)
    """Which samples every way has right, where the metric counts these."""
    blind: bool | None = None
    """Whether every model answers one and the same class for all samples, though they are of
    several; None where that does not matter, as for a metric of scores."""
    rare: int | None = None
    """How many test samples are not of the commonest kind: an AUROC over a single healthy patient
    is a statement about one. All of them where that does not matter."""

    @property
    def telling(self) -> int:
        """How many samples there are to hang a difference on."""
        return self.tested if self.rare is None else self.rare

    def estimate(self, way: str) -> Estimate:
        """The metric under one way; where right answers are counted, with Wilson's interval."""
        value = self.values[way]
        if value is None:
            return Estimate()
        if way in self.hits:
            return Estimate(value, wilson(int(self.hits[way].sum()), self.tested))
        ends = bounds(self.draws[way])
        return Estimate(value, ends and spanned(*ends))

    def gain(self, way: str, over: str = ALONE, higher_is_better: bool = True) -> Gain:
        after, before = self.values[way], self.values[over]
        fewest = FEWEST if self.hits else FEWEST_DRAWN
        if after is None or before is None or self.tested < fewest or self.telling < FEWEST_RARE:
            return Gain()
        sign = 1 if higher_is_better else -1
        drawn = sign * (self.draws[way] - self.draws[over])
        found = sign * (after - before)
        return Gain(found, bounds(drawn), chance([self], way, over, (found, drawn)))


def chance(sites: Sequence[Judged], way: str, over: str, about: tuple[float, Draws]) -> float:
    """How often as much would be seen without a difference; `about` is what was found and drawn.

    Right answers are counted. Of other metrics draws tell, and where all draws agree they cannot
    tell more than if every sample that tells had spoken for the same way.
    """
    if all(site.hits for site in sites):
        one = np.concatenate([site.hits[over] for site in sites])
        two = np.concatenate([site.hits[way] for site in sites])
        return sign_test(int((two & ~one).sum()), int((one & ~two).sum()))
    return max(chance_of(*about), sign_test(sum(site.telling for site in sites), 0))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided and exact: of samples that one way alone has right (McNemar's test).

    >>> round(sign_test(5, 0), 4), round(sign_test(3, 3), 4)
    (0.0625, 1.0)
    """
    count, few = wins + losses, min(wins, losses)
    rows = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        for k in range(few + 1)
    )
    tail = math.fsum(math.exp(row - count * math.log(2)) for row in rows)
    return min(1.0, 2 * tail)


def bounds(draws: Draws) -> Interval | None:
    """The middle 95 % of what was drawn, None where most draws say nothing."""
    known = draws[np.isfinite(draws)]
    if not len(known) or 2 * len(known) < len(draws):
        return None
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(known, [tail, 100 - tail])
    return float(low), float(high)


def chance_of(found: float, drawn: Draws) -> float:
    """Two-sided, from the spread of the draws as of a normal distribution; 0 if there is none.

    >>> round(chance_of(1.96, np.array([-1.0, 1.0])), 3)
    0.166
    """
    known = drawn[np.isfinite(drawn)]
    if len(known) < 2:
        return 1.0
    spread = float(known.std(ddof=1))
    if spread == 0:
        return 0.0 if found else 1.0
    return math.erfc(abs(found) / spread / math.sqrt(2))


def told(chances: Sequence[float], share: float = FALSE) -> list[bool]:
    """Which differences stand, so that of all that are told at most `share` are chance.

    >>> told([0.001, 0.04, 0.02, 0.9])
    [True, False, True, False]
    """
    ranked = sorted(range(len(chances)), key=lambda k: chances[k])
    last = max(
        (n for n, k in enumerate(ranked, 1) if chances[k] <= share * n / len(chances)), default=0
    )
    standing = set(ranked[:last])
    return [k in standing for k in range(len(chances))]


@dataclass(frozen=True)
class Site:
    """What a site is told."""

    name: str
    tested: int
    ways: Mapping[str, Estimate]
    shared: Gain
    """The shared model's gain over training alone."""
    personal: Gain
    """The personal model's."""
    verdict: str
    """shared, personal, mended (harmed by the shared model, helped once it is personal), either
    (harmed, and personal no worse than alone), alone (harmed by both), open (no difference beyond
    chance) or untested."""

    @property
    def gain(self) -> Gain:
        """That of the way that the verdict is about."""
        return self.personal if self.verdict == PERSONAL else self.shared


def judge(sites: Sequence[Judged], higher_is_better: bool = True) -> list[Site]:
    """Each site's verdict, after all differences were looked at together."""
    gains = [
        tuple(site.gain(way, ALONE, higher_is_better) for way in (SHARED, PERSONAL))
        for site in sites
    ]
    standing = iter(told([gain.chance for pair in gains for gain in pair]))
    found = []
    for site, (shared, personal) in zip(sites, gains, strict=True):
        ways = {way: site.estimate(way) for way in site.values}
        signs = [direction(gain, next(standing)) for gain in (shared, personal)]
        verdict = verdict_of(*signs) if shared.value is not None else "untested"
        found.append(Site(site.name, site.tested, ways, shared, personal, verdict))
    return found


def direction(gain: Gain, stands: bool) -> int:
    """1 for a gain, -1 for a loss, 0 for what may be chance."""
    return int(math.copysign(1, gain.value)) if stands and gain.value else 0


def verdict_of(shared: int, personal: int) -> str:
    """What follows from the directions of the two gains."""
    if shared > 0:
        return SHARED
    if personal > 0:
        return "mended" if shared < 0 else PERSONAL
    if shared < 0:
        return ALONE if personal < 0 else "either"
    return "open"


def overall(sites: Sequence[Judged], way: str, over: str, higher_is_better: bool = True) -> Gain:
    """The gain of the mean over sites, each counted by its test samples."""
    known = [s for s in sites if s.values[way] is not None and s.values[over] is not None]
    if not known:
        return Gain()
    sign, weights = (1 if higher_is_better else -1), np.array([float(s.tested) for s in known])
    weights /= weights.sum()
    apart = [float(s.values[way] or 0) - float(s.values[over] or 0) for s in known]
    drawn = np.stack([s.draws[way] - s.draws[over] for s in known])
    drawn = np.where(np.isfinite(drawn), drawn, np.array(apart)[:, None])
    mean, draws = sign * float(weights @ apart), sign * (weights @ drawn)
    return Gain(mean, bounds(draws), chance(known, way, over, (mean, draws)))


# -- in words --------------------------------------------------------------------------------------

CLAUSES = {
    SHARED: "gain{s} {} from the shared model",
    PERSONAL: "gain{s} {} once the shared model is made {own}",
    "mended": "lose{s} {} by the shared model, and gain{s} once it is made {own}",
    "either": "lose{s} {} by the shared model and {be} better off alone or personalised",
    ALONE: "lose{s} {} by the shared model, and by a personalised one: better off alone",
}
ONE = {"s": "s", "own": "its own", "be": "is"}
MANY = {"s": "", "own": "their own", "be": "are"}


def advice(
    sites: Sequence[Site],
    together: Gain,
    own: Gain = NONE,
    unit: str = " points",
    scale: float = 100,
    label: str = "accuracy",
) -> str:
    """The sentence: who gains how much, who is better off alone, who cannot tell.

    Gains are told as `scale` times the metric called `label`, followed by the unit. `together` is
    what the shared model gains over all sites, `own` what it gains made theirs, for where each
    alone has too few tests.
    """
    judged = [site for site in sites if site.verdict != "untested"]
    if not judged:
        return unable(sites, label)
    parts = []
    for verdict, clause in CLAUSES.items():
        members = [site for site in judged if site.verdict == verdict]
        if members:
            amounts = span([abs(site.gain.value or 0) * scale for site in members])
            said = clause.format(with_unit(amounts, unit), **(ONE if len(members) == 1 else MANY))
            parts.append(f"{called(members, len(judged))} {said}")
    undecided = [site for site in judged if site.verdict == "open"]
    few = [site for site in sites if site.verdict == "untested"]
    verb = "has" if len(few) == 1 else "have"
    rest = (
        f"; {called(few, len(sites))} {verb} too few tests, or of one kind, to tell" if few else ""
    )
    if not parts:
        return f"{nobody(len(judged), together, own, unit, scale)}{rest}."
    if undecided:
        parts.append(f"for {called(undecided, len(judged))} there is {CHANCE}")
    return f"{'; '.join(parts)}{rest}."


def unable(sites: Sequence[Site], label: str) -> str:
    """Why nothing can be told of any site."""
    tested = [site for site in sites if site.tested]
    if tested and all(way.value is None for site in tested for way in site.ways.values()):
        return f"{label[0].upper()}{label[1:]} cannot be said of any site: {ONE_KIND}."
    return "No site has test samples enough, or enough of the rarer kind, to tell."


def learned(judged: Sequence[Judged]) -> bool:
    """Whether any site has a model that tells its samples apart."""
    known = [site.blind for site in judged if site.blind is not None]
    return not known or not all(known)


NOTHING = (
    "The models answer one and the same class for all samples of a site, so that nothing was "
    "learned and nothing can be compared; more federation.rounds, a smaller federation.batch_size "
    "or a larger federation.lr may help"
)
TWO = ", and of two classes --set data.task=binary, which judges by AUROC"


def nothing(two_classes: bool) -> str:
    """The sentence where no model learned anything."""
    return f"{NOTHING}{TWO if two_classes else ''}."


def nobody(sites: int, together: Gain, own: Gain, unit: str, scale: float) -> str:
    """Where no site's difference stands by itself, perhaps that of all of them does."""
    one = f"at none of the {sites} sites is there a {CHANCE.removeprefix('no ')}"
    if sites == 1:
        one = f"at the one site that can tell there is {CHANCE}"
    told = {"by the shared model": together} if together.stands else {}
    if own.stands and not (together.stands and (together.value or 0) > 0):
        told[f"once {'it' if told else 'the shared model'} is made their own"] = own
    if not told:
        return f"{one[0].upper()}{one[1:]}"
    said = " and ".join(f"{moved(gain, unit, scale)} {how}" for how, gain in told.items())
    return f"Taken together the sites {said}, though {one}"


def moved(gain: Gain, unit: str, scale: float) -> str:
    """ "gain 7 points", or "lose" as many."""
    value = (gain.value or 0) * scale
    return f"{'gain' if value > 0 else 'lose'} {with_unit(rounded(abs(value)), unit)}"


def called(sites: Sequence[Site], of: int) -> str:
    """Sites by name, or how many of them."""
    names = [site.name for site in sites]
    if len(names) == of:
        return f"all {of} sites" if of > 1 else names[0]
    if len(names) > NAMED:
        return f"{len(names)} of {of} sites"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def span(amounts: Sequence[float]) -> str:
    """ "4–9", or "4" where it is all the same.

    >>> span([3.6, 9.2]), span([0.42]), span([4.1, 3.9])
    ('4–9', '0.42', '4')
    """
    low, high = rounded(min(amounts)), rounded(max(amounts))
    return low if low == high else f"{low}–{high}"


def with_unit(amount: str, unit: str) -> str:
    """ "4–9 points", "1 point", "0.42 of RMSE"."""
    return f"{amount}{unit.removesuffix('s') if (amount, unit) == ('1', ' points') else unit}"


def rounded(amount: float) -> str:
    """Whole numbers from 1 on, two digits below."""
    return f"{amount:.0f}" if amount >= 1 else f"{amount:.2g}"
