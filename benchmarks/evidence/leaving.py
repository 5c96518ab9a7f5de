"""When not to use FedKF: where FedAvg is as good, where training alone is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evidence.contrasts import Contrast, contrast, shown
from evidence.markdown import NONE, listed, table
from evidence.reading import Evidence
from evidence.worlds import FAMILY, World, unfinished, worlds
from fedkf.charts.labels import algorithm_label
from fedkf.paper.differences import BASELINE
from fedkf.runs.collect import READOUTS
from fedkf.runs.statistics import CHANCE


def when_not(evidence: Evidence) -> str:
    """Where FedKF's variants gain nothing over FedAvg with T1, or lose."""
    found, rows = worlds(evidence), []
    for world in found:
        for name in FAMILY:
            own = world.method(name)
            by = {readout: world.less_fedavg(name, readout) for readout in READOUTS}
            if own and any(by.values()):
                signs = [sign for r in READOUTS for sign in verdicts(by[r])]
                rows.append([f"{world.title}: {own.method}", *signs])
    head = ["less FedAvg", "AMP, both ACA", "worst client", "AMP, both OCA", "worst client"]
    return table(head, rows)


def advice(evidence: Evidence) -> str:
    """The same in words."""
    return f"{advice_against(worlds(evidence))}{still_to_run(evidence)}"


FAIR = "Each read as ACA or OCA, whichever has the higher mean"
SIGNS = {"better": "+", "worse": "−", CHANCE: "="}


def verdicts(found: Contrast | None) -> list[str]:
    """Signs of AMP's difference and of the worst client's."""
    if found is None:
        return [NONE, NONE]
    told = [found.verdict(metric) for metric in ("amp", "wlp")]
    return [SIGNS.get(verdict, verdict) for verdict in told]


def still_to_run(evidence: Evidence) -> str:
    """What nothing is said of yet."""
    left = unfinished(evidence)
    return (
        f" Not run with all seeds, so that nothing is said of it: {'; '.join(left)}."
        if left
        else ""
    )


def advice_against(found: Sequence[World]) -> str:
    """Where a variant is better than FedAvg, where it is worse, and where being alone is better."""
    by = sides(found)
    told = [f"{name} {above_and_below(own)}" for name, own in by.items()]
    own = [world for world in found if world.alone()]
    missing = [world.title for world in found if not world.alone()]
    said = [
        ("None of them is shown to be above FedAvg, which costs less, on", nowhere(by)),
        (
            "Training alone has the higher mean (in brackets the best shared model less it) on",
            [text for world in own if (text := better_alone(world))],
        ),
        ("Training alone was not run on", missing if own else []),
    ]
    rest = " ".join(f"{text} {listed(names)}." for text, names in said if names)
    first = f"{FAIR}, beyond chance: {'; '.join(told)}. " if told else ""
    return f"{first}{rest}"


Sides = Mapping[str, Sequence[str]]
"""Where a variant is better than FedAvg, where worse, and where no difference is shown."""


def sides(found: Sequence[World]) -> dict[str, Sides]:
    """The variants of FedKF by their names, each against FedAvg wherever there are seeds enough."""
    by: dict[str, dict[str, list[str]]] = {}
    for name in FAMILY:
        for world in found:
            less = less_better(world, name)
            if less:
                own = by.setdefault(algorithm_label(name), {})
                own.setdefault(less.verdict(), []).append(world.title)
    return dict(by)


def above_and_below(own: Sides) -> str:
    """ "above FedAvg on 3 of 13 (letters α = 1), below it on har"."""
    above, below = own.get("better", ()), own.get("worse", ())
    told = f"above FedAvg on {len(above)} of {sum(map(len, own.values()))}"
    told += f" ({listed(above)})" if above else ""
    return told + (f", below it on {listed(below)}" if below else "")


def nowhere(by: Mapping[str, Sides]) -> list[str]:
    """The data on which no variant is above FedAvg."""
    every = dict.fromkeys(
        title for own in by.values() for titles in own.values() for title in titles
    )
    won = {title for own in by.values() for title in own.get("better", ())}
    return [title for title in every if title not in won]


def less_better(world: World, name: str) -> Contrast | None:
    """A variant less FedAvg, each under its better readout, where there are seeds enough."""
    own, base = world.better(name), world.better(BASELINE)
    found = contrast(own, base) if own and base else None
    return found if found and found.by_seeds else None


def better_alone(world: World) -> str:
    """By how much the best shared model is behind training alone, where it is."""
    own, best = world.alone(), world.best("amp")
    less = contrast(best, own) if own else None
    if less is None or less.metrics["amp"].mean >= 0:
        return ""
    return f"{world.title} ({best.name} {shown(less.metrics['amp'])})"
