"""The report: one HTML file that opens anywhere, needs no network and may come from strangers."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedkf import __version__
from fedkf.charts import plotly_backend
from fedkf.charts.chart import Bubbles, Chart
from fedkf.charts.labels import algorithm_label, percent
from fedkf.core.payload import KINDS as PAYLOADS
from fedkf.metrics import PAPER, Metric
from fedkf.report import figures, hiding, sentences
from fedkf.report.fairness import fairness, site_scores
from fedkf.report.figures import model_label
from fedkf.report.groups import group_sections
from fedkf.report.measures import judged_by, metrics_of, site_tables
from fedkf.report.outside import held_out
from fedkf.report.pairs import baseline, contests
from fedkf.report.privacy import promise
from fedkf.report.repeats import repeats
from fedkf.report.runs import Run, tail
from fedkf.report.samples import Samples, pictured
from fedkf.runs.collect import set_apart
from fedkf.runs.load import BUSY
from fedkf.runs.statistics import CHANCE, amount, ground

DRAWN = 12
"""More runs than this are listed, not drawn."""
LISTED = 200
ROWS = 30
WORST = 5
WARNINGS = 12
SCRIPTS = ("plotly-basic.min.js", "draw.js", "report.js")
CONFIG = 60_000


@cache
def asset(name: str) -> str:
    """A file that ships with the page."""
    return (resources.files("fedkf.report") / "assets" / name).read_text("utf-8")


def digest(text: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """What the page may do: run its own scripts, use its own styles, show images inside it."""
    scripts = " ".join(digest(asset(name)) for name in SCRIPTS)
    return (
        f"default-src 'none'; script-src {scripts}; style-src {digest(styles())}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def styles() -> str:
    return asset("plotly.css") + asset("common.css") + asset("report.css")


@cache
def templates() -> Environment:
    """The templates with their filters; whatever they show is escaped."""
    environment = Environment(
        loader=PackageLoader("fedkf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "metric": show_metric,
        "change": show_change,
        "amount": amount,
        "size": size,
        "megabytes": lambda v: f"{v / 1e6:,.1f}",
        "duration": lambda v: str(timedelta(seconds=round(v))),
    }
    return environment


def embed(content: Any) -> Markup:
    """JSON inside a page: nothing in it can end the element that holds it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def build(
    runs: Sequence[Run], samples: Mapping[str, Samples | str] | None = None, back: str | None = None
) -> str:
    """The report of one run, or of several compared. `back` is a link to where it is served."""
    drawn = [run for run in runs if run.readouts or run.rounds][:DRAWN]
    groups = {kind: figures.charts(kind, drawn) for kind in figures.KINDS}
    page = templates().get_template("report.html")
    return page.render(
        version=__version__,
        policy=policy(),
        styles=Markup(styles()),
        scripts=[Markup(asset(name)) for name in SCRIPTS],
        title=" · ".join(run.label for run in runs[:4]) + (" …" if len(runs) > 4 else ""),
        headline=sentences.headline(runs),
        below=sentences.below_headline(runs),
        cautions=some(sentences.cautions(runs)),
        glossary=sentences.glossary(drawn),
        undrawn=len(runs) - len(drawn),
        metrics=metrics_of(drawn).values(),
        judged=judged_by(drawn),
        site_tables=site_tables(drawn),
        charts=groups,
        findings=findings(drawn),
        held_out=held_out(drawn),
        groups=group_sections(drawn),
        figures=embed({k: [plotly_backend.figure(c) for c in v] for k, v in groups.items()}),
        tables={k: [table(c) for c in v] for k, v in groups.items()},
        comparison=comparison(runs[:LISTED]),
        repeats=repeats(runs)[:LISTED],
        paired=paired(drawn),
        paper=[metrics_of(drawn)[name] for name in PAPER],
        chance=CHANCE,
        worst=worst(drawn),
        gains=sentences.about_gain(drawn),
        fairness=fairness_rows(drawn),
        samples=samples,
        pictured=any(pictured(run.path) for run in runs),
        refused=[(run.label, refusals(run), taking_part(run)) for run in drawn],
        costs=[cost(run) for run in drawn],
        disclosed=disclosed(drawn),
        promises=[found for run in drawn if (found := promise(run))],
        hiding=[found for run in drawn if (found := hiding.promise(run))],
        configurations=[configuration(run) for run in runs[:DRAWN]],
        simulated=any(not natural(run) for run in drawn),
        back=back,
    )


def natural(run: Run) -> bool:
    """Whether the data itself said who holds what."""
    return run.section("data").get("partition") == "natural"


def findings(runs: Sequence[Run]) -> Sequence[str]:
    """How the sites differ beyond their labels, as the first run that measured it says."""
    known = (run.partition.differences for run in runs if run.partition.differences)
    return next((about.findings for about in known), ())


def some(texts: Sequence[str]) -> list[str]:
    """As many as a person reads."""
    left = len(texts) - WARNINGS
    return [*texts[:WARNINGS], *([f"… and {left} more of the kind."] if left > 0 else [])]


def comparison(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row per model, with its difference from the baseline's, on the same data and seed."""
    rows = []
    for run in runs:
        base = baseline(run, runs) if not run.alone else None
        for readout in run.readouts:
            numbers = run.numbers(readout)
            other = base.numbers(readout) if base else None
            before = other.values if other else {}
            after = numbers.values if numbers else {}
            rows.append(
                {
                    "run": run.label,
                    "folder": run.name,
                    "readout": "own" if run.alone else readout.upper(),
                    "key": readout,
                    "numbers": numbers,
                    "difference": {
                        name: now - then
                        for name, then in before.items()
                        if then is not None and (now := after.get(name)) is not None
                    },
                    "against": algorithm_label(base.algorithm) if base else None,
                    "best": (run.summary.best.get(readout) if run.summary else None),
                }
            )
    return rows


def paired(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row per setting and readout: its mean difference from the baseline, with intervals."""
    rows = []
    for contest in contests(runs):
        for readout in contest.readouts():
            found = {name: contest.difference(readout, name) for name in PAPER}
            known = {name: difference for name, difference in found.items() if difference}
            if known:
                row = {"what": contest.label, "against": contest.base_label}
                configs = ((base.config, other.config) for base, other in contest.pairs)
                over = "; ".join([ground(next(iter(known.values()))), *set_apart(configs)])
                rows.append({**row, "readout": readout.upper(), "over": over, "metrics": known})
    return rows


def show_metric(value: float | None, metric: Metric) -> str:
    """A metric's number with its unit."""
    unit = "\N{NO-BREAK SPACE}%" if metric.percent and value is not None else ""
    return metric.show(value) + unit


def show_change(value: float | None, metric: Metric) -> str:
    """A difference between two numbers of a metric: percentage points, or as the metric is."""
    return "–" if value is None else f"{'+' if value >= 0 else ''}{metric.show(value)}"


def table(chart: Chart) -> dict[str, Any]:
    """The numbers behind a chart, for those who cannot see it or want to check it."""
    series = chart.series[0]
    if isinstance(series, Bubbles):
        sizes = series.sizes
        largest = sorted(range(len(sizes)), key=lambda i: -sizes[i])[:ROWS]
        rows = [[series.hover[i]] for i in largest]
        return {
            "head": ["the largest holdings"],
            "rows": rows,
            "left_out": len(series.x) - len(rows),
        }
    names = chart.x.names
    places = sorted({x for one in chart.series for x in one.x})
    step = max(1, -(-len(places) // ROWS))
    chosen = places[:ROWS] if names else places[::step]
    if places and not names and chosen[-1] != places[-1]:
        chosen.append(places[-1])
    columns = [dict(zip(s.x, s.y, strict=True)) for s in chart.series]
    show = percent if chart.y.percent else lambda v: "–" if v is None else f"{v:.4g}"
    rows = [
        [
            names[int(x)] if x < len(names) else f"{x:.4g}",
            *[show(column.get(x)) for column in columns],
        ]
        for x in chosen
    ]
    head = ["site" if names else chart.x.label, *[s.name for s in chart.series]]
    return {"head": head, "rows": rows, "left_out": len(places) - len(chosen)}


def worst(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The worst-served sites of each run's first readout, by name."""
    rows = []
    for run in runs:
        for readout in run.readouts[:1]:
            sites = site_scores(run, readout)
            if sites:
                rows.append({"model": model_label(run, readout), "sites": sites[:WORST]})
    return rows


def fairness_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Fairness in more than one number, a row per model."""
    rows = []
    for _, run, readout, _ in figures.models(runs):
        numbers = fairness(run, readout)
        if numbers is not None:
            rows.append({"model": model_label(run, readout), **numbers})
    return rows


def refusals(run: Run) -> list[dict[str, Any]]:
    """Uploads that were left out, by site and reason, the most frequent first."""
    counts = Counter((r.client, r.reason) for record in run.rounds for r in record.refused)
    return [
        {"site": run.site(client), "reason": reason, "count": count}
        for (client, reason), count in counts.most_common(ROWS)
    ]


def taking_part(run: Run) -> str:
    """How often sites took part, in a sentence."""
    counts = Counter(k for record in run.rounds for k in record.active)
    if not counts:
        return "Who took part is not recorded."
    sites = max(len(run.partition.clients), len(counts))
    least = min(counts.values()) if len(counts) == sites else 0
    text = f"Each site took part in {least} to {max(counts.values())} of {len(run.rounds)} rounds"
    never = sites - len(counts)
    return text + (f"; {never} of {sites} never did." if never else ".")


def cost(run: Run) -> dict[str, Any]:
    """What a run sent and how long it took."""
    rounds = max(1, len(run.rounds))
    total = {way: sum(r.bytes.get(way, 0) for r in run.rounds) for way in ("down", "up")}
    parts = ("train", "aggregate", "evaluate", "checkpoint", "total")
    seconds = {key: sum(r.seconds.get(key, 0) for r in run.rounds) for key in parts}
    return {
        "run": run.label,
        "rounds": len(run.rounds),
        **total,
        "seconds": seconds,
        "each": sum(total.values()) / rounds,
        "load": load_of(run),
    }


def load_of(run: Run) -> float | None:
    """What the machine's load was when the run began, if it was busy."""
    about: Any = run.config
    for key in ("provenance", "machine", "load"):
        about = about.get(key) if isinstance(about, dict) else None
    return about if isinstance(about, int | float) and about > BUSY else None


def disclosed(runs: Sequence[Run]) -> dict[str, Any]:
    """What left the sites, in training and evaluation; runs without a ledger have not ended."""
    known = [(run.label, run.ledger) for run in runs if run.ledger is not None]
    kinds = sorted({kind for _, ledger in known for kind in ledger.disclosed})
    rows = []
    for kind in kinds:
        sizes = [
            sum(part.get("up", {}).get(kind, 0) for part in (ledger.training, ledger.evaluation))
            for _, ledger in known
        ]
        means = PAYLOADS.get(kind, "not known to this version of fedkf")
        rows.append({"kind": kind, "means": means, "sizes": sizes})
    return {
        "runs": [label for label, _ in known],
        "rows": rows,
        "leakage": {label: ledger.leakage for label, ledger in known if ledger.leakage},
        "missing": [run.label for run in runs if run.ledger is None],
    }


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:,.1f}\N{NO-BREAK SPACE}{unit}"
    return f"{count}\N{NO-BREAK SPACE}B" if count else "–"


def configuration(run: Run) -> dict[str, Any]:
    """How to repeat a run."""
    text = run.config_text
    return {
        "run": run.label,
        "folder": tail(run.path),
        "text": text if len(text) <= CONFIG else text[:CONFIG] + "\n… (cut)",
        "command": f"fedkf run config.yaml --out {shlex.quote(run.name + '-again')}",
    }
