"""FedKF against FedAvg as the paper compares them, taken apart into T1 and T2."""

from __future__ import annotations

from statistics import fmean

from evidence.contrasts import Contrast, Model, contrast, shown, signed
from evidence.markdown import NONE, listed, table
from evidence.reading import LETTERS, Evidence
from evidence.tables import PHOTOGRAPHS, RESNET
from evidence.worlds import World, t1_alone, worlds
from fedkf.paper.findings import published_scores
from fedkf.paper.published import Case
from fedkf.runs.suite import Finished

BESIDE = {LETTERS: "emnist", PHOTOGRAPHS: "cifar10"}
"""The data of the paper's that stand beside ours."""


def as_published(evidence: Evidence) -> str:
    """FedKF as OCA less FedAvg as ACA, T1's part and T2's part of it, and what the paper has."""
    rows = []
    within, larger, smaller = list[str](), list[str](), list[str]()
    for world in worlds(evidence):
        own, base = world.method("fedkf"), world.method("fedavg")
        if not world.kind or own is None or base is None:
            continue
        whole = contrast(Model(own, "oca"), Model(base, "aca"))
        parts = [whole, t1_alone(world), world.less_fedavg("fedkf", "oca")]
        cells = [
            cell
            for metric in ("amp", "wlp")
            for cell in (*(told(part, metric) for part in parts), show(published(world, metric)))
        ]
        theirs, ours = published(world, "amp"), whole.metrics["amp"] if whole else None
        if theirs is not None and ours and ours.interval:
            low, high = ours.interval
            kind = larger if theirs < low else smaller if theirs > high else within
            kind.append(world.title)
        rows.append([world.title, *cells])
    ways = ("of it T1", "of it T2", "the paper's")
    head = [title for metric in ("AMP", "WLP") for title in (f"{metric}, points", *ways)]
    made = table(["FedKF (OCA) less FedAvg (ACA)", *head], rows)
    count = f"{len(within)} of {len(within + larger + smaller)}"
    said = f"The paper's difference in AMP lies within our interval on {count}"
    said += f"; ours is larger on {listed(larger)}" if larger else ""
    said += f"; ours is smaller on {listed(smaller)}" if smaller else ""
    return f"{made}\n\n{said}."


def told(part: Contrast | None, metric: str) -> str:
    return shown(part.metrics.get(metric), metric) if part else NONE


def published(world: World, metric: str) -> float | None:
    """The same difference of the paper's means."""
    beside, scores = BESIDE.get(world.kind.partition(",")[0], ""), published_scores()
    ends = [
        scores.get(Case(beside, world.alpha or 0, name, readout, metric))
        for name, readout in (("fedkf", "oca"), ("fedavg", "aca"))
    ]
    own, base = ends
    return None if own is None or base is None else own - base


def show(value: float | None) -> str:
    return NONE if value is None else signed(100 * value)


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
