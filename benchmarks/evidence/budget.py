"""What accuracy costs: to FedAvg's accuracy, and within what FedAvg takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from evidence import paper
from evidence.contrasts import Model, plain
from evidence.markdown import NONE, listed, percent, table
from evidence.reading import LETTERS, Evidence, Setting, find
from evidence.worlds import FAMILY, World, sent, worlds
from fedkf.paper import speed
from fedkf.paper.analyses import CURVES_ALPHA
from fedkf.paper.grid import solution
from fedkf.runs.collect import READOUTS
from fedkf.runs.statistics import over_seeds
from fedkf.runs.suite import Finished

FREE = solution("fedavg", "oca")
PACED = ("FedAvg (ACA)", FREE, *(solution(name, "oca") for name in FAMILY))
WAYS_TO_TARGET = {
    "rounds-to-target": "rounds",
    "bytes-to-target": "MB",
    "time-to-target": "s",
}


def on_letters(evidence: Evidence) -> dict[str, Setting]:
    """FedAvg and FedKF's variants at the α of the paper's curves."""
    known = evidence.settings(LETTERS)
    found = {name: find(known, name, CURVES_ALPHA) for name in ("fedavg", *FAMILY)}
    return {name: one for name, one in found.items() if one}


# -- to FedAvg's accuracy --------------------------------------------------------------------------


def paced(evidence: Evidence) -> dict[str, dict[str, Sequence[float]]]:
    """What every seed took to FedAvg's AMP by the paper's rule: row, unit, a number a seed.

    What did not come there with every seed, or was not timed, is left out.
    """
    found: dict[str, dict[str, Sequence[float]]] = {}
    for what, unit in WAYS_TO_TARGET.items():
        if unit == "s" and evidence.pace(LETTERS) is None:
            continue
        for made in paper.tables_of(evidence, what):
            seeds = max(len(cells[0].values) for cells in made.rows.values())
            for row in PACED:
                values = made.rows[row][0].values if row in made.rows else []
                if len(values) == seeds:
                    found.setdefault(row, {})[unit] = values
    return found


def pace(evidence: Evidence) -> str:
    """Rounds, bytes and time to FedAvg's AMP, and less FedAvg with T1, seed by seed."""
    found, units = paced(evidence), list(WAYS_TO_TARGET.values())
    rows = []
    for row, by in found.items():
        cells = []
        for unit in units:
            own, free = by.get(unit), found.get(FREE, {}).get(unit)
            cells.append(NONE if own is None else f"{fmean(own):.0f}")
            apart = row not in PACED[:2] and own is not None and free is not None
            less = [a - b for a, b in zip(own or (), free or (), strict=True)] if apart else []
            cells.append(plain(over_seeds(less)) if less else NONE)
        rows.append([row, *cells])
    head = [cell for unit in units for cell in (unit, f"less {FREE}")]
    return table(["until AMP is what FedAvg (ACA) ends with", *head], rows)


@dataclass(frozen=True)
class Speedup:
    """All of FedAvg's rounds over those that a model needed to FedAvg's AMP."""

    rounds: float
    time: float | None
    bytes: float


def speedup(evidence: Evidence, world: World, model: Model) -> Speedup | None:
    """By the paper's rule, of means over seeds; None if a seed did not come there."""
    base, own = world.method("fedavg"), model.setting
    finals = {run.pairing: run.final("aca") for run in (base.runs if base else ())}
    if base is None or any(run.pairing not in finals for run in own.runs):
        return None
    needed, megabytes = list[int](), list[float]()
    for run in own.runs:
        final = finals[run.pairing]
        target = final["amp"] if final else None
        first = speed.first_round(run, model.readout, target) if target is not None else None
        if first is None:
            return None
        needed.append(first)
        megabytes.append(speed.sent(run, first))
    rounds = base.runs[0].summary.rounds / fmean(needed)
    seconds = evidence.seconds(world.paced)
    timed = "fedavg" in seconds and own.algorithm in seconds
    return Speedup(
        rounds,
        rounds * seconds["fedavg"] / seconds[own.algorithm] if timed else None,
        sent(base) / 1e6 / fmean(megabytes),
    )


RACING = (("fedavg", "aca"), ("fedavg", "oca"), *((name, "oca") for name in FAMILY))


def racing(world: World) -> list[Model]:
    """FedAvg and FedKF's variants as OCA, and FedAvg as it is."""
    found = [(world.method(name), readout) for name, readout in RACING]
    return [Model(one, readout) for one, readout in found if one]


def races(evidence: Evidence) -> dict[str, dict[str, Speedup | None]]:
    """How much sooner each model is there, by the title of the data and its name."""
    return {
        world.title: {m.name: speedup(evidence, world, m) for m in racing(world)}
        for world in worlds(evidence)
    }


def speedups(evidence: Evidence) -> str:
    """Rounds, time and bytes of FedAvg over those to its AMP, on every kind of data."""
    names, found = [solution(*one) for one in RACING], races(evidence)
    rows = [[title, *(speedup_cell(name, by) for name in names)] for title, by in found.items()]
    return f"{table(['rounds / time / bytes', *names], rows)}\n\n{sooner(evidence)}"


def sooner(evidence: Evidence) -> str:
    """Which variants are there before FedAvg under either readout, by the clock."""
    found, told, none = races(evidence), list[str](), list[str]()
    for own in (solution(*one) for one in RACING[2:]):
        known = [title for title, by in found.items() if own in by]
        first = [title for title in known if ahead(found[title], own)]
        if first:
            told.append(f"{own} on {len(first)} of {len(known)} ({listed(first)})")
        elif known:
            none.append(own)
    told += [f"{listed(none)} nowhere"] if none else []
    return (
        f"At FedAvg (ACA)'s final AMP are, by the clock, sooner than FedAvg under either "
        f"readout: {'; '.join(told)}."
    )


def ahead(by: Mapping[str, Speedup | None], name: str) -> bool:
    """Whether a model takes less time than FedAvg read in either way."""
    own, others = by[name], [by.get(solution(*one)) for one in RACING[:2]]
    rivals = [one.time for one in others if one and one.time is not None]
    return bool(own and own.time is not None and rivals and own.time > max(rivals))


def speedup_cell(name: str, by: Mapping[str, Speedup | None]) -> str:
    if name not in by:
        return NONE
    found = by[name]
    if found is None:
        return "not with every seed"
    ways = (found.rounds, found.time, found.bytes)
    return " / ".join(NONE if way is None else f"{way:.1f}" for way in ways)


# -- within what FedAvg takes ----------------------------------------------------------------------


def amp_after(run: Finished, readout: str, rounds: int) -> float | None:
    """AMP at the last round that was tested until then."""
    tested = [one.readouts for one in run.rounds[:rounds] if one.readouts]
    found = tested[-1].get(readout) if tested else None
    return found["amp"] if found else None


def fedavg_takes(evidence: Evidence) -> tuple[float, float]:
    """Seconds and bytes of all of FedAvg's rounds; 0 where they are not known."""
    own = on_letters(evidence).get("fedavg")
    if own is None:
        return 0, 0
    rounds = own.runs[0].summary.rounds
    return rounds * evidence.seconds(LETTERS).get("fedavg", 0), sent(own)


def in_time(evidence: Evidence) -> dict[str, int]:
    """How many rounds of each method take as long as all of FedAvg's."""
    whole, _ = fedavg_takes(evidence)
    seconds = evidence.seconds(LETTERS)
    known = {name: one for name, one in on_letters(evidence).items() if name in seconds}
    return {
        name: min(int(whole / seconds[name] + 1e-9), one.runs[0].summary.rounds)
        for name, one in known.items()
        if whole
    }


def in_bytes(evidence: Evidence) -> dict[str, int]:
    """How many rounds of each method send as much as all of FedAvg's."""
    _, whole = fedavg_takes(evidence)
    found = {}
    for name, one in on_letters(evidence).items() if whole else ():
        so_far = accumulate(sum(record.bytes.values()) for record in one.runs[0].rounds)
        found[name] = sum(total <= whole for total in so_far)
    return found


def reached(one: Setting, readout: str, rounds: int) -> float | None:
    """A method's AMP after so many rounds, mean over seeds."""
    values = [amp_after(run, readout, rounds) for run in one.runs]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def budget(evidence: Evidence) -> str:
    """AMP when FedAvg's time is over, and when its bytes are sent."""
    ways, rows = (in_time(evidence), in_bytes(evidence)), []
    for name, one in on_letters(evidence).items():
        for readout in READOUTS:
            cells = []
            for way in ways:
                known = name in way
                cells.append(str(way[name]) if known else NONE)
                cells.append(percent(reached(one, readout, way[name])) if known else NONE)
            rows.append([Model(one, readout).name, *cells])
    seconds, sent_in_all = fedavg_takes(evidence)
    head = [f"rounds in FedAvg's {seconds:.0f} s", "AMP, %"]
    head += [f"rounds with its {sent_in_all / 1e6:.0f} MB", "AMP, %"]
    return table([f"letters α = {CURVES_ALPHA:g}", *head], rows)
