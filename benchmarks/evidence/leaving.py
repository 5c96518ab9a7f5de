"""When not to use FedKF: where FedAvg is as good, where training alone is better."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.contrasts import Contrast, contrast, shown
from evidence.markdown import NONE, listed, table
from evidence.reading import Evidence
from evidence.worlds import FAMILY, World, unfinished, worlds
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
    return f"{table(head, rows)}\n\n{advice(evidence)}"


def advice(evidence: Evidence) -> str:
    """The same in words."""
    return f"{advice_against(worlds(evidence))}{still_to_run(evidence)}"


FAIR = "Each under its better readout, which these numbers chose"
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
    """Where a variant is better than FedAvg, where none is or one is worse, and where being alone
    is better."""
    gain, level, worse = sides(found)
    own = [world for world in found if world.alone()]
    missing = [world.title for world in found if not world.alone()]
    said = [
        (f"{FAIR}, a variant of FedKF is beyond chance above FedAvg in AMP on", gain),
        ("None is shown to be above FedAvg, which costs less, on", level),
        ("Beyond chance below it:", worse),
        (
            "Training alone has the higher mean, with the best shared model less it, on",
            [text for world in own if (text := better_alone(world))],
        ),
        ("It was not run on", missing if own else []),
    ]
    return " ".join(f"{text} {listed(names)}." for text, names in said if names)


def sides(found: Sequence[World]) -> tuple[list[str], list[str], list[str]]:
    """Where a variant of FedKF is better than FedAvg, where none is, and which are worse where."""
    known = [(world, judged) for world in found if (judged := less_better(world))]
    told = {world.title: {c.verdict() for c in judged.values()} for world, judged in known}
    gain = [title for title, verdicts in told.items() if "better" in verdicts]
    level = [title for title, verdicts in told.items() if "better" not in verdicts]
    worse = [
        f"{name} on {world.title}"
        for world, judged in known
        for name, about in judged.items()
        if about.verdict() == "worse"
    ]
    return gain, level, worse


def less_better(world: World) -> dict[str, Contrast]:
    """FedKF's variants less FedAvg, each under its better readout, where there are seeds enough."""
    base, own = world.better("fedavg"), [world.better(name) for name in FAMILY]
    found = {model.name: contrast(model, base) for model in own if model and base}
    return {name: about for name, about in found.items() if about and about.by_seeds}


def better_alone(world: World) -> str:
    """By how much the best shared model is behind training alone, where it is."""
    own, best = world.alone(), world.best("amp")
    less = contrast(best, own) if own else None
    if less is None or less.metrics["amp"].mean >= 0:
        return ""
    return f"{world.title} ({best.name} {shown(less.metrics['amp'])})"
