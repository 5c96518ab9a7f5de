"""Sentences with numbers: the answer in ten lines, and which method for which data."""

from __future__ import annotations

from collections.abc import Mapping

from evidence.contrasts import Contrast, Model, contrast, shown
from evidence.markdown import NONE, both, listed, percent, table
from evidence.reading import LETTERS, Evidence, find
from evidence.tables import megabytes
from evidence.worlds import (
    FAMILY,
    World,
    a_client,
    active_share,
    better_readout,
    sent,
    worlds,
)
from fedkf.paper.differences import BASELINE
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import READOUTS

PARTITIONS = f"{LETTERS}-partitions"
"""The suite with another division for each run."""


def glance(evidence: Evidence) -> str:
    """AMP / WLP of what a reader weighs against each other, a row a kind of data."""
    rows = []
    for world in worlds(evidence):
        base = world.method("fedavg")
        shared = [base, base, world.method("fedkf"), world.method("fedkf+")]
        readouts = ("aca", "oca", "oca", "oca")
        models = [Model(one, r) if one else None for one, r in zip(shared, readouts, strict=True)]
        cells = [pair_of(model) for model in (*models, world.alone())]
        best, own = world.best("amp"), world.personal()
        named = [f"{model.name} {pair_of(model)}" if model else NONE for model in (best, own)]
        rows.append([world.title, *cells, *named])
    head = ["AMP / WLP, %", "FedAvg (ACA)", "FedAvg (OCA)", "FedKF (OCA)", "FedKF+ (OCA)"]
    more = ["training alone", "the best for all", "the best of personal ones"]
    return table([*head, *more], rows)


def pair_of(model: Model | None) -> str:
    """ "82.4 / 59.1": AMP and WLP."""
    if model is None:
        return NONE
    return both([percent(model.mean(metric)) for metric in ("amp", "wlp")])


def named(model: Model, metric: str) -> str:
    """ "FedKF (OCA) 82.4 %"."""
    return f"{model.name} {percent(model.mean(metric))} %"


def headline(evidence: Evidence) -> str:
    """FedKF and FedKF+ less FedAvg on letters, for the first page of the project."""
    rows = []
    for world in worlds(evidence):
        for name in FAMILY[1:] if world.kind == LETTERS else ():
            own = world.method(name)
            by = {readout: world.less_fedavg(name, readout) for readout in READOUTS}
            if own and all(by.values()):
                title = f"{own.method}, α = {world.alpha:g}"
                rows.append([title, *headline_cells(by), over_divisions(evidence, name, world)])
    head = ["", "AMP, points: ACA", "OCA", "WLP, points: ACA", "OCA", "seeds"]
    return table([*head, "AMP over divisions, OCA"], rows)


def over_divisions(evidence: Evidence, name: str, world: World) -> str:
    """The same difference with another division of the data for each run."""
    known = evidence.settings(PARTITIONS)
    own, base = (find(known, each, world.alpha) for each in (name, BASELINE))
    found = contrast(Model(own, "oca"), Model(base, "oca")) if own and base else None
    return shown(found.metrics["amp"]) if found else NONE


def headline_cells(by: Mapping[str, Contrast | None]) -> list[str]:
    known = [found for found in by.values() if found]
    cells = [shown(c.metrics.get(metric), metric) for metric in ("amp", "wlp") for c in known]
    return [*cells, str(known[0].seeds)]


# -- which method ----------------------------------------------------------------------------------


def choices(evidence: Evidence) -> str:
    """For each kind of data: the best, what is not behind it, and the cheapest of these."""
    steps, rows = evidence.steps(), []
    apart = evidence.apart()
    for world in worlds(evidence):
        best, wlp = world.best("amp"), world.best("wlp")
        alike = [model for model in one_each(world) if not_behind(model, best)]
        cheapest = min(alike, key=lambda m: (steps.get(m.setting.algorithm, 9), sent(m.setting)))
        others = [m.name for m in alike if m.setting.method != best.setting.method]
        differ = [apart.get(world.data, {}).get(what) for what in ("labels", "inputs")]
        own = world.personal()
        rows.append(
            [
                world.title,
                *(NONE if value is None else f"{value:.2f}" for value in differ),
                f"{100 * active_share(best.setting):.0f} %",
                named(best, "amp"),
                listed(others) or "none",
                f"{cheapest.name}, {megabytes(cheapest.setting)} MB",
                named(wlp, "wlp"),
                pair_of(world.alone()),
                named(own, "amp") if own else NONE,
            ]
        )
    head = ["data", "labels", "inputs", "active in a round", "highest AMP"]
    more = ["not shown to be behind it", "the cheapest of these", "best-served worst client"]
    return table([*head, *more, "training alone, AMP / WLP", "the best personal models"], rows)


def one_each(world: World) -> list[Model]:
    """Every method under its better readout."""
    shared = [one for one in world.settings if one.runs and one.algorithm != ALONE]
    return [better_readout(one) for one in shared]


def not_behind(model: Model, best: Model) -> bool:
    """Whether a model is the best, or not shown by the seeds to be behind it."""
    about = contrast(model, best)
    return model == best or (about is not None and not about.metrics["amp"].beyond_chance)


def next_step(evidence: Evidence) -> str:
    """How much the best is worth over FedAvg's better readout, and over the best of other kinds."""
    lines = []
    for world in worlds(evidence):
        base, best = world.better("fedavg"), world.best("amp")
        if base is None or best.setting.algorithm == "fedavg":
            lines.append(f"**{world.title}**: nothing that was run is above FedAvg.")
            continue
        rival = world.best("amp", outside=FAMILY)
        over = (
            [base]
            if rival.setting.algorithm in ("fedavg", best.setting.algorithm)
            else [base, rival]
        )
        found = [(other, about) for other in over if (about := contrast(best, other))]
        told = [f"{shown(about.metrics['amp'])} above {other.name}" for other, about in found]
        about = found[0][1]
        client = (
            f"a client gains {a_client(about)} over FedAvg, {about.worse} of {about.count} lose"
        )
        lines.append(f"**{world.title}**: {best.name} is {listed(told)}; {client}.")
    return "\n".join(f"- {line}" for line in lines)


def above(best: Model, other: Model) -> str:
    """ "+8.3 [7.9, 8.6] * above FedAvg (OCA)"."""
    about = contrast(best, other)
    return f"{shown(about.metrics['amp'] if about else None)} above {other.name}"
