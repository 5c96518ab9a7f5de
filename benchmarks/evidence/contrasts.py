"""One model less another, over the seeds and over the clients that both were run with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from evidence.markdown import NONE, listed
from evidence.reading import Setting
from fedkf.charts.labels import readout_label
from fedkf.metrics import METRICS, PAPER
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import PERSONAL, Group, pairs
from fedkf.runs.statistics import (
    CHANCE,
    CONFIDENCE,
    Difference,
    over_seeds,
    student_probability,
    student_quantile,
)
from fedkf.runs.suite import Finished

STAR = "*"
LATE = 10
LATELY = "late"
"""AMP as the mean of the last rounds, where a metric is named."""
UNKNOWN = "too few seeds"


@dataclass(frozen=True)
class Model:
    """A method with one of its readouts."""

    setting: Setting
    readout: str

    @property
    def name(self) -> str:
        if self.setting.algorithm == ALONE:  # both readouts are each client's own model
            return self.setting.method
        if self.readout == PERSONAL:
            return f"{self.setting.method}, personal"
        return readout_label(self.setting.method, self.readout)

    def mean(self, metric: str) -> float | None:
        """After the last round, over all seeds."""
        values = self.setting.group.values(self.readout, metric)
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Contrast:
    """By how much the metrics of one model are larger than another's."""

    metrics: dict[str, Difference] = field(default_factory=dict)
    """Over seeds: paired, with Student's interval from three on."""
    late: Difference | None = None
    """AMP once more, as the mean of the last rounds: the last one alone is a noisy witness."""
    clients: Difference | None = None
    """The accuracy of a client, each counted once, its mean over seeds: an interval over them."""
    better: int = 0
    worse: int = 0
    count: int = 0

    @property
    def seeds(self) -> int:
        return max((d.seeds for d in self.metrics.values()), default=0)

    def verdict(self, metric: str = "amp") -> str:
        """What the seeds say of a difference, where there are three of them."""
        judged = self.late if metric == LATELY else self.metrics.get(metric)
        if judged is None or judged.interval is None:
            return UNKNOWN
        if not judged.beyond_chance:
            return CHANCE
        return "better" if judged.mean > 0 else "worse"

    @property
    def by_seeds(self) -> bool:
        """Whether there are seeds enough for an interval over them."""
        return any(d.interval for d in self.metrics.values())


def contrast(other: Model, base: Model) -> Contrast | None:
    """`other` less `base`, on the same data and seeds; None where nothing can be compared."""
    matched = pairs(base.setting.group, other.setting.group)
    found: dict[str, list[float]] = {}
    late: list[float] = []
    for one, two in matched:
        before, after = one.final(base.readout), two.final(other.readout)
        for metric in PAPER:
            start = before[metric] if before else None
            end = after[metric] if after else None
            if start is not None and end is not None:
                found.setdefault(metric, []).append(end - start)
        ends = [late_amp(run, m.readout) for run, m in ((one, base), (two, other))]
        if ends[0] is not None and ends[1] is not None:
            late.append(ends[1] - ends[0])
    if not found:
        return None
    gains = list(client_gains(matched, base.readout, other.readout).values())
    return Contrast(
        {metric: over_seeds(values) for metric, values in found.items()},
        over_seeds(late) if late else None,
        over_seeds(gains) if gains else None,
        sum(gain > 0 for gain in gains),
        sum(gain < 0 for gain in gains),
        len(gains),
    )


def paired(
    own: Setting, base: Setting, value: Callable[[Finished, Finished], float | None]
) -> Difference | None:
    """A number of each pair of runs on the same data with the same seed, over the seeds.

    None where there are no pairs, or one of them has no such number.
    """
    found = [value(after, before) for before, after in pairs(base.group, own.group)]
    known = [each for each in found if each is not None]
    return over_seeds(known) if known and len(known) == len(found) else None


def late_amp(run: Finished, readout: str) -> float | None:
    """The mean of a readout's AMP over the last rounds that tested it."""
    tested = [r.readouts for r in run.rounds if r.readouts]
    found = [score["amp"] for readouts in tested if (score := readouts.get(readout)) is not None]
    values = [value for value in found[-LATE:] if value is not None]
    return fmean(values) if values else None


def client_gains(
    matched: Sequence[tuple[Finished, Finished]], base: str, other: str
) -> dict[tuple[str, int], float]:
    """By how much each client's accuracy is larger, its mean over the seeds of one partition.

    Natural clients are the same ones whatever the seed of the division.
    """
    found: dict[tuple[str, int], list[float]] = {}
    for one, two in matched:
        before, after = accuracies(one, base), accuracies(two, other)
        for client in before.keys() & after.keys():
            key = division(two), client
            found.setdefault(key, []).append(after[client] - before[client])
    return {key: fmean(gains) for key, gains in sorted(found.items())}


def division(run: Finished) -> str:
    """Within which a client's number means the same client."""
    return "" if run.config.data.partition == "natural" else run.pairing[0]


def served(groups: Sequence[Group], readout: str) -> list[tuple[str, int]]:
    """The clients of these methods, the worst served by all of them together first."""
    found: dict[tuple[str, int], list[float]] = {}
    for run in (run for group in groups for run in group.runs):
        for client, accuracy in accuracies(run, readout).items():
            found.setdefault((division(run), client), []).append(accuracy)
    return sorted(found, key=lambda key: (fmean(found[key]), key))


def accuracies(run: Finished, readout: str) -> dict[int, float]:
    """Every client's accuracy after the last round, or what else its task is judged by."""
    score = next((r.readouts.get(readout) for r in reversed(run.rounds) if r.readouts), None)
    if score is None:
        return {}
    both = zip(score.clients, score.performance, strict=True)
    return {client: value for client, value in both if value is not None}


def gains_of(group: Group, base: Group, readout: str) -> dict[tuple[str, int], float]:
    """The clients' gains of one method over another under the same readout."""
    return client_gains(pairs(base, group), readout, readout)


# -- many at once ----------------------------------------------------------------------------------


def doubt(difference: Difference) -> float:
    """How often chance alone would bring so large a difference, by Student's t over its seeds."""
    if difference.interval is None:
        return 1.0
    low, high = difference.interval
    if high == low:
        return float(difference.mean == 0)
    degrees = difference.seeds - 1
    t = abs(difference.mean) * student_quantile(degrees) / ((high - low) / 2)
    return 1 - student_probability(t, degrees)


def standing(differences: Mapping[str, Difference]) -> list[str]:
    """Those that leave out 0 after Holm's correction for there being so many."""
    kept: list[str] = []
    order = sorted(differences, key=lambda name: doubt(differences[name]))
    for k, name in enumerate(order):
        if doubt(differences[name]) > (1 - CONFIDENCE) / (len(order) - k):
            break
        kept.append(name)
    return [name for name in differences if name in kept]


def corrected(differences: Mapping[str, Difference]) -> str:
    """What is left of stars when one counts how many differences there are.

    Those without an interval could have none and do not count.
    """
    judged = {name: one for name, one in differences.items() if one.interval}
    starred = sum(one.beyond_chance for one in judged.values())
    return (
        f"of these {len(judged)} differences {starred} have a star; after Holm's correction for "
        f"their number there stand: {listed(standing(judged)) or 'none'}"
    )


# -- in writing ------------------------------------------------------------------------------------


def shown(difference: Difference | None, metric: str = "amp") -> str:
    """ "+5.9 [1.2, 10.6] *": in points or thousandths, with an interval where there is one."""
    if difference is None:
        return NONE
    return plain(difference, *((100, 1) if METRICS[metric].percent else (1000, 2)))


def plain(difference: Difference, scale: float = 1, digits: int = 0) -> str:
    """The same for a number of any unit."""
    text = f"{signed(scale * difference.mean, digits)}"
    if difference.interval is None:
        return text
    if difference.interval == (0, 0):
        return "0 with every seed"
    ends = [scale * end for end in difference.interval]
    if difference.beyond_chance and any(float(f"{end:.{digits}f}") == 0 for end in ends):
        digits += 1  # or an end that is not 0 would look like it
    low, high = (signed(end, digits, "") for end in ends)
    return f"{text} [{low}, {high}]{f' {STAR}' if difference.beyond_chance else ''}"


def signed(value: float, digits: int = 1, plus: str = "+") -> str:
    """A number with its sign; what rounds to nothing has none below zero.

    >>> signed(-0.01), signed(2.345), signed(-3.0)
    ('+0.0', '+2.3', '−3.0')
    """
    text = f"{abs(value):.{digits}f}"
    negative = value < 0 and float(text) != 0
    return f"{'−' if negative else plus}{text}"
