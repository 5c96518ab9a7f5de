"""What accuracy costs: how far FedAvg's time and bytes go, and how soon FedAvg's accuracy is there.

All models are read as OCA, FedAvg's too, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from evidence.contrasts import paired, plain, shown
from evidence.markdown import NONE, listed, table
from evidence.reading import Evidence, Setting
from evidence.worlds import FAMILY, World, round_cost, sent, worlds
from fedkf.charts.labels import algorithm_label
from fedkf.paper.differences import BASELINE
from fedkf.paper.speed import first_round
from fedkf.runs.statistics import Difference
from fedkf.runs.suite import Finished

READOUT = "oca"
EARLY = 10
"""Who is at its last accuracy after less than one in so many rounds had nothing left to learn."""


@dataclass(frozen=True)
class Cost:
    """What one method costs on one kind of data, beside FedAvg."""

    world: World
    own: Setting
    base: Setting
    time: float | None
    """Of a round, in FedAvg's; None where it was not measured."""

    @property
    def title(self) -> str:
        return f"{self.world.title}: {self.own.method}"

    @property
    def bytes(self) -> float:
        """Of a round, in FedAvg's."""
        return sent(self.own) / sent(self.base)

    def in_time(self) -> Difference | None:
        """AMP when all of FedAvg's time is over, less FedAvg's."""
        if self.time is None:
            return None
        share = self.time
        return self.within(lambda own, base: int(len(base.rounds) / share + 1e-9))

    def in_bytes(self) -> Difference | None:
        """AMP when all of FedAvg's bytes are sent, less FedAvg's."""
        return self.within(rounds_with_bytes_of)

    def within(self, rounds: Callable[[Finished, Finished], int]) -> Difference | None:
        """AMP after as many rounds less FedAvg's after its last, seed by seed."""
        return paired(
            self.own,
            self.base,
            lambda own, base: less(amp_after(own, rounds(own, base)), amp_after(base, None)),
        )

    def sooner(self) -> Difference | None:
        """Time to FedAvg's last AMP less what FedAvg took to it, in all of FedAvg's time."""
        share = self.time
        if share is None or not self.telling:
            return None

        def later(own: Finished, base: Finished) -> float | None:
            mine, theirs = (there(run, amp_after(base, None)) for run in (own, base))
            if mine is None or theirs is None:
                return None
            return (mine * share - theirs) / len(base.rounds)

        return paired(self.own, self.base, later)

    @property
    def telling(self) -> bool:
        """Whether FedAvg had something left to learn after its first rounds."""
        needed = [(there(run, amp_after(run, None)), run) for run in self.base.runs]
        return all(k is not None and k * EARLY >= len(run.rounds) for k, run in needed)


def costs(evidence: Evidence) -> list[Cost]:
    """FedKF's variants on every kind of data."""
    return [
        Cost(world, own, base, round_cost(evidence, world, name))
        for world in worlds(evidence)
        for name in FAMILY
        if (own := world.method(name)) and (base := world.method(BASELINE))
    ]


def amp_after(run: Finished, rounds: int | None) -> float | None:
    """AMP at the last round that was tested until then."""
    tested = [one.readouts for one in run.rounds[:rounds] if one.readouts]
    found = tested[-1].get(READOUT) if tested else None
    return found["amp"] if found else None


def there(run: Finished, target: float | None) -> int | None:
    """The first round with that AMP."""
    return None if target is None else first_round(run, READOUT, target)


def rounds_with_bytes_of(own: Finished, base: Finished) -> int:
    """How many rounds of a run send no more than all of another's."""
    whole = sum(base.summary.bytes.values())
    so_far = accumulate(sum(record.bytes.values()) for record in own.rounds)
    return sum(total <= whole for total in so_far)


def less(own: float | None, base: float | None) -> float | None:
    return None if own is None or base is None else own - base


# -- in writing ------------------------------------------------------------------------------------

WAYS: Mapping[str, Callable[[Cost], Difference | None]] = {
    "time": Cost.in_time,
    "bytes": Cost.in_bytes,
}


def budget(evidence: Evidence) -> str:
    """What rounds cost, what FedAvg's time and bytes bring, and when FedAvg's AMP is there."""
    every, rows = costs(evidence), []
    for one in every:
        time = NONE if one.time is None else f"{one.time:.1f}"
        amps = [shown(find(one)) for find in WAYS.values()]
        rows.append([one.title, time, f"{one.bytes:.1f}", *amps, when(one)])
    head = ["both OCA", "a round's time, in FedAvg's", "its bytes, in FedAvg's"]
    head += [f"AMP given FedAvg's {way}, points less FedAvg's" for way in WAYS]
    head += ["time to FedAvg's last AMP less FedAvg's own, in % of FedAvg's whole"]
    told = " ".join(f"{counted(every, way)}." for way in WAYS)
    return f"{table(head, rows)}\n\n{told} {measured(evidence)}"


def when(one: Cost) -> str:
    found = one.sooner()
    if found is not None:
        return plain(found, 100)
    return "not with every seed" if one.telling and one.time is not None else NONE


def counted(every: Sequence[Cost], way: str) -> str:
    """In how many places each is ahead of FedAvg beyond chance, or behind."""
    parts = []
    for name in FAMILY:
        found = {
            one.world.title: difference
            for one in every
            if one.own.algorithm == name and (difference := WAYS[way](one))
        }
        sure = [(title, d.mean) for title, d in found.items() if d.beyond_chance]
        ahead = [title for title, mean in sure if mean > 0]
        behind = [title for title, mean in sure if mean < 0]
        where = f" ({listed(ahead)})" if ahead else ""
        if found:
            first = f"{algorithm_label(name)} is ahead on {len(ahead)} of {len(found)}{where}"
            parts.append(f"{first} and behind on {len(behind)}")
    return f"Given no more than FedAvg's {way}, beyond chance {'; '.join(parts)}"


def measured(evidence: Evidence) -> str:
    """How busy the machine was when rounds were timed, and how sure the times are."""
    timed = {world.paced: evidence.pace(world.paced) for world in worlds(evidence)}
    known = [one for one in timed.values() if one]
    if not known:
        return ""
    loads = [one.load for one in known]
    twins = []
    for kind in timed:
        seconds = evidence.seconds(kind)
        if "fedkf" in seconds and "fedkf-" in seconds:
            twins.append(abs(seconds["fedkf"] / seconds["fedkf-"] - 1))
    noise = f" FedKF and FedKF- compute the same and differ by up to {100 * max(twins):.0f} %: so"
    sure = f"{noise} sure are these times." if twins else ""
    return (
        f"Rounds were timed in turns under a load of {min(loads):.1f} to {max(loads):.1f}, the "
        f"measurement before it included.{sure}"
    )
