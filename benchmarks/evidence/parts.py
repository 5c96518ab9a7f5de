"""FedKF against FedAvg as the paper compares them, taken apart into T1 and T2."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from evidence.contrasts import Contrast, Model, contrast, shown, signed
from evidence.markdown import NONE, listed, table
from evidence.reading import LETTERS, Evidence
from evidence.tables import PHOTOGRAPHS, RESNET
from evidence.worlds import World, worlds
from fedkf.metrics import METRICS
from fedkf.paper.findings import published_scores
from fedkf.paper.published import Case
from fedkf.runs.suite import Finished

BESIDE = {LETTERS: "emnist", PHOTOGRAPHS: "cifar10"}
"""The data of the paper's that stand beside ours."""


def as_published(evidence: Evidence) -> str:
    """FedKF as OCA less FedAvg as ACA, and T1's and T2's parts of it, whichever comes first."""
    rows = []
    within, larger, smaller = list[str](), list[str](), list[str]()
    for world in worlds(evidence):
        whole = step(world, ("fedavg", "aca"), ("fedkf", "oca"))
        if not world.kind or whole is None:
            continue
        for metric in ("amp", "wlp"):
            cells = [shown(whole.metrics.get(metric), metric)]
            for way in WAYS.values():
                made = [step(world, *pair) for pair in pairwise(way)]
                cells.append(" then ".join(told(one, metric) for one in made))
            cells.append(paper_cell(world, metric))
            rows.append([f"{world.title}, {METRICS[metric].label}", *cells])
        theirs, ours = published(world, "amp", "fedavg"), whole.metrics["amp"]
        if theirs is not None and ours.interval:
            low, high = ours.interval
            kind = larger if theirs < low else smaller if theirs > high else within
            kind.append(world.title)
    head = ["FedKF (OCA) less FedAvg (ACA), points", "whole", *WAYS, "the paper's (T1 then T2)"]
    count = f"{len(within)} of {len(within + larger + smaller)}"
    said = f"The paper's difference in AMP lies within our interval on {count}"
    said += f"; ours is larger on {listed(larger)}" if larger else ""
    said += f"; ours is smaller on {listed(smaller)}" if smaller else ""
    return f"{table(head, rows)}\n\n{said}."


WAYS = {
    "T1 then T2": (("fedavg", "aca"), ("fedavg", "oca"), ("fedkf", "oca")),
    "T2 then T1": (("fedavg", "aca"), ("fedkf", "aca"), ("fedkf", "oca")),
}
"""From FedAvg as ACA to FedKF as OCA, over FedAvg as OCA or over FedKF as ACA."""


def step(world: World, start: tuple[str, str], end: tuple[str, str]) -> Contrast | None:
    """One model less another."""
    base, own = world.method(start[0]), world.method(end[0])
    return contrast(Model(own, end[1]), Model(base, start[1])) if own and base else None


def told(part: Contrast | None, metric: str) -> str:
    return shown(part.metrics.get(metric), metric) if part else NONE


def paper_cell(world: World, metric: str) -> str:
    """The whole, and its parts where the paper has FedAvg as OCA."""
    whole, second = (published(world, metric, "fedavg", readout) for readout in ("aca", "oca"))
    if whole is None:
        return NONE
    parts = "" if second is None else f" ({show(whole - second)} then {show(second)})"
    return f"{show(whole)}{parts}"


def published(world: World, metric: str, base: str, readout: str = "aca") -> float | None:
    """FedKF as OCA less another of the paper's means."""
    beside, scores = BESIDE.get(world.kind.partition(",")[0], ""), published_scores()
    ends = [
        scores.get(Case(beside, world.alpha or 0, name, way, metric))
        for name, way in (("fedkf", "oca"), (base, readout))
    ]
    own, other = ends
    return None if own is None or other is None else own - other


def show(value: float) -> str:
    return signed(100 * value)


# -- whether clients go the same way ---------------------------------------------------------------

MODELS = {RESNET: ", ResNet-8"}
ALIGNED = (f"{LETTERS}-partitions", PHOTOGRAPHS, RESNET)
"""Suites whose runs all tell in which direction each client went."""


def alignment(evidence: Evidence) -> str:
    """The cosine between a client's update and the others', in the last half of the rounds."""
    rows: dict[str, dict[str, str]] = {}
    places: dict[str, None] = {}
    for name in ALIGNED:
        for one in evidence.settings(name):
            values = [found for run in one.runs if (found := cosine(run)) is not None]
            if values and len(values) == len(one.runs):
                place = f"{name.partition('-')[0]}{MODELS.get(name, '')} {one.where}"
                mean, low, high = (signed(of(values), 3) for of in (fmean, min, max))
                rows.setdefault(one.method, {})[place] = f"{mean} ({low} to {high})"
                places.setdefault(place)
    cells = [[name, *(by.get(place, NONE) for place in places)] for name, by in rows.items()]
    return table(["cosine, mean over runs (from … to)", *places], cells)


def cosine(run: Finished) -> float | None:
    """Mean over the clients and over the last half of the rounds."""
    late = run.rounds[len(run.rounds) // 2 :]
    found = [c for one in late if one.moves for c in one.moves.cosine if c is not None]
    return fmean(found) if found else None
