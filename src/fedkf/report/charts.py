"""What each picture shows, as data: one description for the interactive page and for paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from fedkf.report.fairness import DECILES, deciles, served
from fedkf.report.runs import Run

Look = Literal["solid", "dotted", "points", "hollow", "bars", "bubbles"]
POINTS = 400
"""No more points to a curve than can be told apart on a page."""
BUBBLES = 6000


@dataclass(frozen=True)
class Series:
    """One line or cloud. `colour` numbers the run, so that a run looks alike in every picture."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: int = 0
    look: Look = "solid"
    hover: Sequence[str] = ()
    texts: Sequence[str] = ()
    sizes: Sequence[float] = ()
    shown: bool = True


@dataclass(frozen=True)
class Chart:
    """A picture, with the sentence that stands for it where it cannot be seen."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    says: str = ""
    percent: bool = True
    x_names: Sequence[str] = field(default=())
    y_names: Sequence[str] = field(default=())
    zero_line: bool = False


def of(run: Run, readout: str) -> str:
    return run.label if run.alone else f"{run.label} ({readout.upper()})"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def thin(rows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most POINTS of them, evenly, the last one always."""
    step = -(-len(rows) // POINTS) or 1
    kept = list(rows[::step])
    return kept if not rows or kept[-1] == rows[-1] else [*kept, rows[-1]]


def each(runs: Sequence[Run]) -> Iterator[tuple[int, Run, str, Look]]:
    """Every readout of every run, with its colour and look."""
    for colour, run in enumerate(runs):
        for readout in run.readouts:
            yield colour, run, readout, "solid" if readout == run.readouts[0] else "dotted"


# -- against rounds --------------------------------------------------------------------------------

METRICS = {
    "amp": "AMP: average accuracy (higher is better)",
    "fm": "FM: variance between sites (lower is fairer)",
    "wlp": "WLP: the worst-served site (higher is better)",
}


def curve(run: Run, readout: str, metric: str) -> list[tuple[float, float]]:
    scores = [(r.round, (r.readouts or {}).get(readout)) for r in run.evaluated]
    pairs = [(n, getattr(score, metric)) for n, score in scores if score is not None]
    return [(n, value) for n, value in pairs if value is not None]


def curves(runs: Sequence[Run]) -> list[Chart]:
    """AMP, FM and WLP against rounds, both readouts."""
    charts = []
    for metric, name in METRICS.items():
        series, ends = [], []
        for colour, run, readout, look in each(runs):
            rows = thin(curve(run, readout, metric))
            if rows:
                xs, ys = zip(*rows, strict=True)
                series.append(Series(of(run, readout), xs, ys, colour, look))
                end = f"{ys[-1]:.4f}" if metric == "fm" else percent(ys[-1])
                ends.append(f"{of(run, readout)} ends at {end}")
        says = f"{name}, against rounds: {'; '.join(ends)}."
        charts.append(Chart(name, "round", metric.upper(), series, says, metric != "fm"))
    return charts


def losses(runs: Sequence[Run]) -> list[Chart]:
    """Each training loss against rounds."""
    names = sorted({name for run in runs for r in run.rounds for name in r.losses})
    charts = []
    for name in names:
        series = []
        for colour, run in enumerate(runs):
            rows = thin([(r.round, r.losses[name]) for r in run.rounds if name in r.losses])
            if rows:
                xs, ys = zip(*rows, strict=True)
                series.append(Series(run.label, xs, ys, colour))
        ends = "; ".join(f"{s.name} ends at {s.y[-1]:.3g}" for s in series)
        says = f"Training loss “{name}” against rounds: {ends}."
        charts.append(Chart(f"training loss: {name}", "round", name, series, says, percent=False))
    return charts


def cost(runs: Sequence[Run], x_label: str, spent: Callable[[Run], list[float]]) -> list[Chart]:
    """AMP against what was spent on it."""
    series, ends = [], []
    for colour, run, readout, look in each(runs):
        totals = dict(zip((r.round for r in run.rounds), accumulate(spent(run)), strict=True))
        rows = thin([(totals[int(n)], value) for n, value in curve(run, readout, "amp")])
        if rows:
            xs, ys = zip(*rows, strict=True)
            series.append(Series(of(run, readout), xs, ys, colour, look))
            ends.append(f"{of(run, readout)} reaches {percent(ys[-1])} after {xs[-1]:.3g}")
    says = f"AMP against {x_label}: {'; '.join(ends)}."
    return [Chart(f"AMP against {x_label}", x_label, "AMP", series, says)] if series else []


def communication(runs: Sequence[Run]) -> list[Chart]:
    """AMP against megabytes sent, both ways."""
    return cost(runs, "megabytes sent", lambda r: [sum(x.bytes.values()) / 1e6 for x in r.rounds])


def time(runs: Sequence[Run]) -> list[Chart]:
    """AMP against the time that rounds took on the machine that ran them."""
    longest = max((sum(seconds(run)) for run in runs), default=0)
    unit, one = ("minutes", 60) if longest > 180 else ("seconds", 1)
    return cost(runs, unit, lambda run: [value / one for value in seconds(run)])


def seconds(run: Run) -> list[float]:
    return [record.seconds.get("total", 0) for record in run.rounds]


# -- over sites ------------------------------------------------------------------------------------


def order_of_sites(runs: Sequence[Run]) -> dict[str, int]:
    """Sites by name, from the one that the first run serves worst."""
    names: dict[str, None] = {}
    for run in runs:
        for readout in run.readouts[:1]:
            names |= dict.fromkeys(site.name for site in served(run, readout))
    return {name: place for place, name in enumerate(names)}


def clients(runs: Sequence[Run]) -> list[Chart]:
    """The accuracy at every site: a point per site and model, the worst of each named."""
    order = order_of_sites(runs)
    series, worst = [], []
    for colour, run, readout, look in each(runs):
        sites = served(run, readout)
        if not sites:
            continue
        first = look == "solid"
        series.append(
            Series(
                of(run, readout),
                [order.get(site.name, len(order)) for site in sites],
                [site.accuracy for site in sites],
                colour,
                "points" if first else "hollow",
                hover=[
                    f"{site.name}: {percent(site.accuracy)}"
                    + (f" ({site.right} of {site.tested})" if site.tested else "")
                    for site in sites
                ],
                texts=[sites[0].name, *[""] * (len(sites) - 1)] if first else (),
                shown=first,
            )
        )
        worst.append(
            f"{of(run, readout)} serves {sites[0].name} worst, {percent(sites[0].accuracy)}"
        )
    if not series:
        return []
    says = f"Accuracy at each of {len(order)} sites: {'; '.join(worst)}."
    label = f"site, worst under {runs[0].label} first"
    return [Chart("Accuracy at each site", label, "accuracy", series, says, x_names=list(order))]


def gain(runs: Sequence[Run]) -> list[Chart]:
    """What federating gains each site over training alone; empty without a run of `local`."""
    alone = next((run for run in runs if run.alone and run.readouts), None)
    if alone is None:
        return []
    own = {site.name: site.accuracy for site in served(alone, alone.readouts[0])}
    series, told = [], []
    order: dict[str, int] = {}
    for colour, run in enumerate(runs):
        if run.alone or not run.readouts:
            continue
        gains = [
            (site.name, site.accuracy - own[site.name])
            for site in served(run, run.readouts[0])
            if site.name in own
        ]
        if not gains:
            continue
        order = order or {n: k for k, (n, _) in enumerate(sorted(gains, key=lambda g: g[1]))}
        gains = [g for g in gains if g[0] in order]
        series.append(
            Series(
                of(run, run.readouts[0]),
                [order[name] for name, _ in gains],
                [100 * value for _, value in gains],
                colour,
                "bars",
                hover=[f"{name}: {100 * value:+.1f} points" for name, value in gains],
            )
        )
        better = sum(1 for _, value in gains if value > 0)
        told.append(f"with {of(run, run.readouts[0])}, {better} of {len(gains)} sites gain")
    if not series:
        return []
    says = f"Gain in accuracy over training alone, site by site: {'; '.join(told)}."
    return [
        Chart(
            "Gain over training alone",
            f"site, by gain with {series[0].name}",
            "percentage points",
            series,
            says,
            percent=False,
            x_names=list(order),
            zero_line=True,
        )
    ]


def spread(runs: Sequence[Run]) -> list[Chart]:
    """The accuracy that a share of the sites stays below."""
    series, told = [], []
    for colour, run, readout, look in each(runs):
        accuracies = [site.accuracy for site in served(run, readout)]
        if accuracies:
            levels = deciles(accuracies)
            series.append(Series(of(run, readout), DECILES, levels, colour, look))
            told.append(f"{of(run, readout)} from {percent(levels[0])} to {percent(levels[-1])}")
    says = f"Accuracy from the worst-served site to the best-served one: {'; '.join(told)}."
    label = "% of sites, from the worst served"
    return [Chart("From the worst to the best served", label, "accuracy", series, says)]


def partition(runs: Sequence[Run]) -> list[Chart]:
    """Who holds how much of which class; in simulations, where it is known."""
    run = next((r for r in runs if any(s.classes for s in r.partition.clients)), None)
    if run is None:
        return []
    about = run.partition
    cells = [
        (k, c, n)
        for k, site in enumerate(about.clients)
        for c, n in enumerate(site.classes or [])
        if n
    ]
    cells = sorted(sorted(cells, key=lambda cell: -cell[2])[:BUBBLES])
    names = [*about.class_names]
    names += [str(c) for c in range(len(names), 1 + max(c for _, c, _ in cells))]
    series = Series(
        "training and test samples",
        [k for k, _, _ in cells],
        [c for _, c, _ in cells],
        look="bubbles",
        sizes=[n for _, _, n in cells],
        hover=[f"{about.clients[k].name}, class {names[c]}: {n} samples" for k, c, n in cells],
    )
    says = f"How the samples of {len(names)} classes lie at {len(about.clients)} sites."
    if about.total_variation is not None:
        says += (
            f" A site's mix of classes is {about.total_variation:.2f} away from the mix of all "
            "sites on average, where 0 is alike and 1 is nothing shared."
        )
    sites = [site.name for site in about.clients]
    return [
        Chart(
            "Who holds what", "site", "class", [series], says, False, x_names=sites, y_names=names
        )
    ]


KINDS: dict[str, Callable[[Sequence[Run]], list[Chart]]] = {
    "curves": curves,
    "clients": clients,
    "gain": gain,
    "partition": partition,
    "spread": spread,
    "losses": losses,
    "communication": communication,
    "time": time,
}
"""Every kind of figure by its name on the command line."""
