"""The pictures of results/README.md: against α, time and bytes, by client and part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from evidence.contrasts import Model, gains_of, served
from evidence.reading import Evidence, Setting
from evidence.worlds import FAMILY, World, sent, t1_alone, worlds
from fedkf.charts.chart import Axis, Bars, Chart, Figure, Lines, Points, Series, sheet
from fedkf.charts.labels import algorithm_label, readout_label
from fedkf.charts.matplotlib_backend import draw
from fedkf.metrics import METRICS
from fedkf.paper.figures import mean_curve
from fedkf.paper.sites import ALONE

MIDDLE = 0.1


def draw_all(evidence: Evidence, folder: Path) -> list[Path]:
    """Every picture that there are runs for."""
    made = []
    for name, (columns, make) in PICTURES.items():
        charts = make(evidence)
        if charts:
            path = folder / f"{name}.png"
            draw(Figure(sheet(charts, columns=columns).rows), path)
            made.append(path)
    return made


def against_alpha(evidence: Evidence) -> list[Chart]:
    """AMP and WLP of every method as OCA, and FedAvg as ACA beside it: T1 is free for all."""
    charts = []
    every = [world for world in worlds(evidence) if world.kind]
    for kind in dict.fromkeys(world.kind for world in every):
        own = [world for world in every if world.kind == kind]
        for metric in (METRICS["amp"], METRICS["wlp"]):
            series: list[Series] = []
            for colour, name in enumerate(colours(evidence)):
                for readout in ("aca", "oca") if name == "fedavg" else ("oca",):
                    models = [
                        (w.alpha or 0, Model(s, readout)) for w in own if (s := w.method(name))
                    ]
                    points = [(x, model.mean(metric.name)) for x, model in models]
                    known = [(x, y) for x, y in points if y is not None]
                    if known:
                        xs, ys = zip(*known, strict=True)
                        title, dotted = models[0][1].name, readout == "aca"
                        series.append(Lines(name=title, x=xs, y=ys, colour=colour, dotted=dotted))
            if series:
                x, y = Axis("α", logarithmic=True), Axis(metric.label, percent=True)
                charts.append(Chart(f"{kind}: {metric.label}, {metric.hint}", x, y, series))
    return charts


def colours(evidence: Evidence) -> list[str]:
    """The algorithms in the order of their colours, which are the same in all pictures."""
    found = [one.algorithm for world in worlds(evidence) for one in world.settings if one.runs]
    return list(dict.fromkeys(["fedavg", *FAMILY, ALONE, *found]))


# -- against what it costs -------------------------------------------------------------------------


def against_cost(evidence: Evidence) -> list[Chart]:
    """AMP on the way at α = 0.1, against time and against bytes."""
    charts = []
    for world in middles(evidence):
        names = colours(evidence)
        shown = [one for name in ("fedavg", *FAMILY) if (one := world.method(name))]
        unit, lasts = time_scale(evidence, world)
        sizes = {one.algorithm: sent(one) / one.runs[0].summary.rounds / 1e6 for one in shown}
        for what, each in ((unit, lasts), ("megabytes sent", sizes)):
            series = [
                line
                for one in shown
                for line in curves(one, names.index(one.algorithm), each.get(one.algorithm))
            ]
            if series:
                y = Axis("AMP", percent=True)
                charts.append(Chart(world.title, Axis(what), y, series))
    return charts


def middles(evidence: Evidence) -> list[World]:
    return [w for w in worlds(evidence) if w.alpha == MIDDLE and w.kind]


def curves(one: Setting, colour: int, each: float | None) -> list[Series]:
    """A method's AMP, mean over seeds, where a round takes so much."""
    found: list[Series] = []
    for readout in ("aca", "oca") if each is not None else ():
        rounds, values = mean_curve([run.rounds for run in one.runs], readout, "amp")
        name, places = readout_label(one.method, readout), [(each or 0) * r for r in rounds]
        dotted = readout == "aca"
        found.append(Lines(name=name, x=places, y=values, colour=colour, dotted=dotted))
    return found


def time_scale(evidence: Evidence, world: World) -> tuple[str, Mapping[str, float]]:
    """What a round of each algorithm takes, and in which unit.

    Measured apart: the runs' own seconds are no measure, for the machine had other work as well.
    """
    timed = evidence.pace(world.paced)
    minutes = {name: each / 60 for name, each in evidence.seconds(world.paced).items()}
    return f"minutes ({timed.workers} workers)" if timed else "minutes", minutes


# -- client by client ------------------------------------------------------------------------------


def client_by_client(evidence: Evidence) -> list[Chart]:
    """What every client gains over FedAvg, all as OCA, who is served worst by all of them first."""
    charts = []
    for world in worlds(evidence):
        base = world.method("fedavg")
        known = {name: one for name in FAMILY if (one := world.method(name))}
        groups = [one.group for one in (base, *known.values()) if one]
        order, series = served(groups, "oca"), list[Series]()
        for colour, name in enumerate(FAMILY, 1):
            own = known.get(name)
            gains = gains_of(own.group, base.group, "oca") if own and base else {}
            if own and gains:
                places = [place for place, who in enumerate(order, 1) if who in gains]
                heights = [100 * gains[who] for who in order if who in gains]
                series.append(Bars(name=own.method, x=places, y=heights, colour=colour))
        if series:
            x = Axis("client, the worst served first", whole=True)
            charts.append(Chart(world.title, x, Axis("points", zero_line=True), series))
    return charts


# -- what each part is worth -----------------------------------------------------------------------


def part_by_part(evidence: Evidence) -> list[Chart]:
    """T1, and what FedKF and FedKF+ add to it, on every kind of data, with intervals over seeds."""
    every = worlds(evidence)
    parts = [("T1: FedAvg, OCA less ACA", 0, [t1_alone(world) for world in every])]
    for colour, name in enumerate(FAMILY[1:], 2):
        title = f"{algorithm_label(name)} less FedAvg, both OCA"
        parts.append((title, colour, [world.less_fedavg(name, "oca") for world in every]))
    series: list[Series] = []
    for title, colour, found in parts:
        known = [
            (place, one.late.mean, one.late.interval)
            for place, one in enumerate(found)
            if one and one.late and one.late.interval
        ]
        if known:
            xs, ys, ends = zip(*known, strict=True)
            heights, around = [100 * y for y in ys], [(100 * a, 100 * b) for a, b in ends]
            series.append(Points(name=title, x=xs, y=heights, intervals=around, colour=colour))
    names = [world.title.replace("photographs, ", "") for world in every]
    y = Axis("points of AMP", zero_line=True)
    return [Chart("What each part is worth", Axis("", names=names), y, series)] if series else []


PICTURES: Mapping[str, tuple[int, Callable[[Evidence], list[Chart]]]] = {
    "alpha": (2, against_alpha),
    "cost": (2, against_cost),
    "gain": (3, client_by_client),
    "parts": (1, part_by_part),
}
"""The pictures by the names of their files, and how many charts stand in a row."""
