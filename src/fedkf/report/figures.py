"""The kinds of figure that runs have: from what was read of them to charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from fedkf.charts.chart import Axis, Bars, Bubbles, Chart, Figure, Lines, Points, sheet
from fedkf.charts.labels import metric_title, percent, readout_label
from fedkf.core.errors import UserError
from fedkf.core.holdings import Partition
from fedkf.metrics import Metric
from fedkf.report.fairness import DECILES, deciles, gains, site_scores
from fedkf.report.measures import alike, judged_by, metrics_of, shown
from fedkf.report.runs import Run
from fedkf.report.seeds import by_setting, mean_curve, titled

MOST_POINTS = 400
"""No more points to a curve than can be told apart on a page."""
MOST_BUBBLES = 6000
ROUNDS = Axis("round", whole=True)
MISSING = {
    "gain": ": it needs a run with algorithm.name=local among the others",
    "partition": ": class counts are known in simulations only",
}


def model_label(run: Run, readout: str) -> str:
    """The name of a run's model; where every site has its own there are no readouts."""
    return run.label if run.alone else readout_label(run.label, readout)


def models(runs: Sequence[Run]) -> Iterator[tuple[int, Run, str, bool]]:
    """Every readout of every run, with its colour and whether it is the run's first."""
    for colour, run in enumerate(runs):
        for readout in run.readouts:
            yield colour, run, readout, readout == run.readouts[0]


# -- against rounds --------------------------------------------------------------------------------


def history(run: Run, readout: str, metric: str) -> list[tuple[float, float]]:
    """A metric of a readout by round, where it is known."""
    scores = [(r.round, (r.readouts or {}).get(readout)) for r in run.evaluated]
    pairs = [(number, score[metric]) for number, score in scores if score is not None]
    return [(number, value) for number, value in pairs if value is not None]


def line(
    name: str,
    rows: Sequence[tuple[float, float]],
    colour: int,
    dotted: bool = False,
    spread: Sequence[float] = (),
) -> Lines | None:
    """A curve through some of the rows, evenly, the last one always; None if there is none."""
    step = -(-len(rows) // MOST_POINTS) or 1
    places = list(range(0, len(rows), step))
    if not places:
        return None
    if places[-1] != len(rows) - 1:
        places.append(len(rows) - 1)
    xs, ys = zip(*(rows[k] for k in places), strict=True)
    some = [spread[k] for k in places] if spread else ()
    return Lines(name=name, x=xs, y=ys, colour=colour, dotted=dotted, spread=some)


def ends(series: Sequence[Lines], show: Callable[[float | None], str]) -> str:
    return "; ".join(f"{one.name} ends at {show(one.y[-1])}" for one in series)


def curve(metric: Metric, runs: Sequence[Run]) -> Chart:
    """A metric against rounds, every readout; of several seeds the mean and how they scatter."""
    groups = titled(by_setting(runs))
    drawn = []
    for colour, run, readout, first in models([group[0] for group in groups]):
        group, label = groups[colour], model_label(run, readout)
        rows, spread = mean_curve([history(each, readout, metric.name) for each in group])
        drawn.append(line(label, rows, colour, not first, spread if len(group) > 1 else ()))
    series = [one for one in drawn if one]
    title = metric_title(metric)
    show = percent if metric.percent else metric.show
    band = (
        " Bands are ± one standard deviation over seeds." if any(s.spread for s in series) else ""
    )
    says = f"{title}, against rounds: {ends(series, show)}.{band}"
    return Chart(title, ROUNDS, Axis(metric.label, percent=metric.percent), series, says)


def curves(runs: Sequence[Run]) -> list[Chart]:
    """Every metric against rounds."""
    return [curve(metric, alike(runs)) for metric in metrics_of(runs).values()]


def losses(runs: Sequence[Run]) -> list[Chart]:
    """Each training loss against rounds."""
    charts = []
    for name in sorted({name for run in runs for r in run.rounds for name in r.losses}):
        drawn = [
            line(run.label, [(r.round, r.losses[name]) for r in run.rounds if name in r.losses], k)
            for k, run in enumerate(runs)
        ]
        series = [one for one in drawn if one]
        says = f"Training loss “{name}” against rounds: {ends(series, lambda y: f'{y:.3g}')}."
        charts.append(Chart(f"training loss: {name}", ROUNDS, Axis(name), series, says))
    return charts


def cost(runs: Sequence[Run], unit: str, spent: Callable[[Run], list[float]]) -> list[Chart]:
    """AMP against what was spent on it."""
    metric, series, phrases = metrics_of(runs)["amp"], [], []
    about, runs = judged_by(runs), alike(runs)
    for colour, run, readout, first in models(runs):
        totals = dict(zip((r.round for r in run.rounds), accumulate(spent(run)), strict=True))
        rows = [(totals[int(n)], value) for n, value in history(run, readout, metric.name)]
        if one := line(model_label(run, readout), rows, colour, not first):
            series.append(one)
            phrases.append(f"{one.name} reaches {shown(about, one.y[-1])} after {one.x[-1]:.3g}")
    title = f"{metric.label} against {unit}"
    axis = Axis(metric.label, percent=metric.percent)
    return [Chart(title, Axis(unit), axis, series, f"{title}: {'; '.join(phrases)}.")]


def communication(runs: Sequence[Run]) -> list[Chart]:
    """AMP against megabytes sent, both ways."""
    return cost(runs, "megabytes sent", lambda r: [sum(x.bytes.values()) / 1e6 for x in r.rounds])


def time(runs: Sequence[Run]) -> list[Chart]:
    """AMP against the time that rounds took on the machine that ran them."""
    totals = [sum(r.seconds.get("total", 0) for r in run.rounds) for run in runs]
    unit, one = ("minutes", 60) if max(totals, default=0) > 180 else ("seconds", 1)
    return cost(runs, unit, lambda run: [r.seconds.get("total", 0) / one for r in run.rounds])


# -- over sites ------------------------------------------------------------------------------------


def clients(runs: Sequence[Run]) -> list[Chart]:
    """The accuracy at every site: a point per site and model, the worst of each named."""
    names: dict[str, None] = {}
    metric, runs = judged_by(runs), alike(runs)
    for run in runs:
        for readout in run.readouts[:1]:
            names |= dict.fromkeys(site.name for site in site_scores(run, readout))
    order = {name: place for place, name in enumerate(names)}
    series, worst = [], []
    for colour, run, readout, first in models(runs):
        sites, label = site_scores(run, readout), model_label(run, readout)
        if not sites:
            continue
        points = Points(
            name=label,
            x=[order.get(site.name, len(order)) for site in sites],
            y=[site.value for site in sites],
            colour=colour,
            hover=[
                f"{site.name}: {site.show()}"
                + (f" ({site.right} of {site.tested})" if site.tested and site.counted else "")
                for site in sites
            ],
            texts=[sites[0].name, *[""] * (len(sites) - 1)] if first else (),
            hollow=not first,
        )
        series.append(points)
        worst.append(f"{label} serves {sites[0].name} worst, {sites[0].show()}")
    if not series:
        return []
    title = f"{metric.label[0].upper()}{metric.label[1:]} at each"
    says = f"{title} of {len(order)} sites: {'; '.join(worst)}."
    x = Axis(f"site, worst under {runs[0].label} first", list(order))
    axis = Axis(metric.label, percent=metric.percent)
    return [Chart(f"{title} site", x, axis, series, says)]


def gain(runs: Sequence[Run]) -> list[Chart]:
    """What federating gains each site over training alone; empty without a run of `local`."""
    series, phrases = [], []
    metric, runs = judged_by(runs), alike(runs)
    unit, points_ = (100, "points") if metric.percent else (1, "")
    order: dict[str, int] = {}
    for colour, run in enumerate(runs):
        found = gains(run, runs)
        if not found:
            continue
        label = model_label(run, run.readouts[0])
        order = order or {n: k for k, n in enumerate(sorted(found, key=lambda n: found[n]))}
        points = {name: unit * value for name, value in found.items() if name in order}
        series.append(
            Bars(
                name=label,
                x=[order[name] for name in points],
                y=list(points.values()),
                colour=colour,
                hover=[f"{name}: {value:+.1f} {points_}".strip() for name, value in points.items()],
            )
        )
        better = sum(1 for value in points.values() if value > 0)
        phrases.append(f"with {label}, {better} of {len(points)} sites gain")
    if not series:
        return []
    says = f"Gain in {metric.label} over training alone, site by site: {'; '.join(phrases)}."
    x = Axis(f"site, by gain with {series[0].name}", list(order))
    y = Axis("percentage points" if metric.percent else metric.label, zero_line=True)
    return [Chart("Gain over training alone", x, y, series, says)]


def spread(runs: Sequence[Run]) -> list[Chart]:
    """The accuracy that a share of the sites, the worst served, does not get beyond."""
    series, phrases = [], []
    metric = judged_by(runs)
    for colour, run, readout, first in models(alike(runs) if metric.percent else ()):
        accuracies = [site.value for site in site_scores(run, readout)]
        if accuracies:
            levels, name = deciles(accuracies), model_label(run, readout)
            levels = levels if metric.higher_is_better else levels[::-1]
            series.append(Lines(name=name, x=DECILES, y=levels, colour=colour, dotted=not first))
            phrases.append(f"{name} from {percent(levels[0])} to {percent(levels[-1])}")
    what = f"{metric.label[0].upper()}{metric.label[1:]}"
    says = f"{what} from the worst-served site to the best-served one: {'; '.join(phrases)}."
    x, y = Axis("% of sites, from the worst served"), Axis(metric.label, percent=True)
    return [Chart("From the worst to the best served", x, y, series, says)]


def holdings(about: Partition) -> list[Chart]:
    """Who holds how much of which class; empty where class counts are not known."""
    cells = [
        (k, c, n)
        for k, site in enumerate(about.clients)
        for c, n in enumerate(site.classes or [])
        if n
    ]
    if not cells:
        return []
    cells = sorted(sorted(cells, key=lambda cell: -cell[2])[:MOST_BUBBLES])
    names = [*about.class_names]
    names += [str(c) for c in range(len(names), 1 + max(c for _, c, _ in cells))]
    series = Bubbles(
        name="training and test samples",
        x=[k for k, _, _ in cells],
        y=[c for _, c, _ in cells],
        sizes=[n for _, _, n in cells],
        hover=[f"{about.clients[k].name}, class {names[c]}: {n} samples" for k, c, n in cells],
    )
    says = f"How the samples of {len(names)} classes lie at {len(about.clients)} sites."
    if about.total_variation is not None:
        says += (
            f" A site's mix of classes is {about.total_variation:.2f} away from the mix of all "
            "sites on average, where 0 is alike and 1 is nothing shared."
        )
    x, y = Axis("site", [site.name for site in about.clients]), Axis("class", names)
    return [Chart("Who holds what", x, y, [series], says)]


def partition(runs: Sequence[Run]) -> list[Chart]:
    """Who holds what in the first run that knows."""
    return next((charts for run in runs if (charts := holdings(run.partition))), [])


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


def charts(kind: str, runs: Sequence[Run]) -> list[Chart]:
    """The charts of one kind that have something to show."""
    return [chart for chart in KINDS[kind](runs) if chart.series]


# -- whole figures ---------------------------------------------------------------------------------


def figure(kind: str, runs: Sequence[Run]) -> Figure:
    """One kind of figure; UserError says what it lacks where there is nothing to draw."""
    found = charts(kind, runs)
    if not found:
        raise UserError(f"there is nothing to draw for {kind}{MISSING.get(kind, '')}")
    return sheet(found)


def partition_figure(about: Partition) -> Figure:
    """Who holds what, headed by how much the sites' data differ; class counts must be known."""
    title = f"heterogeneity {about.heterogeneity:.2f}"
    if about.differences is not None and about.differences.inputs is not None:
        labels, inputs = about.differences.labels, about.differences.inputs
        title += f" (labels {labels:.2f}, inputs {inputs:.2f})"
    return sheet(holdings(about), title)


def comparison(runs: Sequence[Run], title: str) -> Figure:
    """The paper's metrics against rounds, above each site's accuracy under each readout."""
    runs = alike(runs)
    above = [curve(metric, runs) for metric in list(metrics_of(runs).values())[:3]]
    readouts = dict.fromkeys(readout for _, _, readout, _ in models(runs))
    return Figure([above, [accuracy_bars(runs, readout) for readout in readouts]], title)


def accuracy_bars(runs: Sequence[Run], readout: str) -> Chart:
    """Each site's accuracy under one readout, and the worst of them across."""
    series, names, metric = [], dict[str, None](), judged_by(runs)
    for colour, run in enumerate(runs):
        sites = sorted(site_scores(run, readout), key=lambda site: site.client)
        names |= dict.fromkeys(site.name for site in sites)
        places = [list(names).index(site.name) for site in sites]
        heights = [site.value for site in sites]
        last = min if metric.higher_is_better else max
        name, worst = model_label(run, readout), last(heights, default=None)
        series.append(Bars(name=name, x=places, y=heights, colour=colour, level=worst))
    title = f"{metric.label} at each site, {readout.upper()} (dashed: the worst)"
    axis = Axis(metric.label, percent=metric.percent)
    return Chart(title, Axis("site", list(names)), axis, series)
