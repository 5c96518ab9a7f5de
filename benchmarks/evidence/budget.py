"""What accuracy costs on letters: to a target, and within what FedAvg takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean

from evidence import paper
from evidence.contrasts import Model, plain
from evidence.markdown import NONE, listed, percent, table
from evidence.reading import Evidence, Setting, find
from evidence.tables import LETTERS
from evidence.worlds import FAMILY, sent
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
        if unit == "s" and paper.measured(evidence) is None:
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


# -- within what FedAvg takes ----------------------------------------------------------------------


def amp_after(run: Finished, readout: str, rounds: int) -> float | None:
    """AMP at the last round that was tested until then."""
    tested = [one.readouts for one in run.rounds[:rounds] if one.readouts]
    found = tested[-1].get(readout) if tested else None
    return found["amp"] if found else None


def round_seconds(evidence: Evidence) -> dict[str, float]:
    """What a round of each algorithm takes on an idle machine, where that was measured."""
    timed = paper.measured(evidence)
    return {name: seconds for (_, name), seconds in timed.seconds.items()} if timed else {}


def fedavg_takes(evidence: Evidence) -> tuple[float, float]:
    """Seconds and bytes of all of FedAvg's rounds; 0 where they are not known."""
    own = on_letters(evidence).get("fedavg")
    if own is None:
        return 0, 0
    rounds = own.runs[0].summary.rounds
    return rounds * round_seconds(evidence).get("fedavg", 0), sent(own)


def in_time(evidence: Evidence) -> dict[str, int]:
    """How many rounds of each method take as long as all of FedAvg's."""
    whole, _ = fedavg_takes(evidence)
    seconds = round_seconds(evidence)
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


def budget_line(evidence: Evidence) -> str:
    """The same as OCA, in a sentence."""
    told = []
    for when, way in (
        ("when FedAvg's rounds are over", in_time(evidence)),
        ("when its bytes are sent", in_bytes(evidence)),
    ):
        amps = [
            f"{percent(reached(one, 'oca', way[name]))} % ({one.method})"
            for name, one in on_letters(evidence).items()
            if name in way
        ]
        told += [f"{when} at {listed(amps)}"] if amps else []
    return f"OCA is, {'; '.join(told)}." if told else ""
