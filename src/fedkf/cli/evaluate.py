"""`fedkf evaluate`: what the trained model does for each client and each class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import ObjectOption, ReadoutOption, RunArgument
from fedkf.cli.tables import group_tables, percent, scores, spanned, table
from fedkf.metrics.sites import ACCURACY, OURS_OF_SITES, SITE_METRICS, SiteMetric


def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option(help="New data: an .npz file, a folder of images, a table or signals."),
    ] = None,
    mixtures: Annotated[
        int, typer.Option(metavar="Q", min=0, help="Also on Q random mixtures of the clients.")
    ] = 0,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Another run, such as `local`: gain per client."),
    ] = None,
    readout: ReadoutOption = "oca",
    as_json: ObjectOption = False,
) -> None:
    """What the trained model does for each client and each class."""
    from fedkf.runs.assessment import add_mixtures, assess
    from fedkf.runs.comparison import add_gain

    result = assess(run, readout, data, against, say)
    if mixtures:
        add_mixtures(result, mixtures)
    if against is not None:
        add_gain(result, run, against)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show_evaluation(result)


def show_evaluation(result: dict[str, Any]) -> None:
    """Tables of clients and classes, then the metrics in a sentence."""
    gains = "gain" in result["clients"][0]
    shown = columns(result)
    by = shown[0]
    more = (by.heading.replace(by.label, "against"), "gain") if gains else ()
    rows = table("", "client", "tested", *(metric.heading for metric in shown), *more)
    for c in result["clients"]:
        extra = (by.show(c["against"]), signed(by, c["gain"])) if gains else ()
        rows.add_row(c["name"], str(c["tested"]), *cells(shown, c), *extra)
    out.print(rows)
    if "holdout" in result:
        heads = [metric.heading for metric in shown]
        held = table("held out: not trained on", "site", "tested", *heads)
        for c in result["holdout"]:
            held.add_row(c["name"], str(c["tested"]), *cells(shown, c))
        out.print(held)
    show_resolution([*result["clients"], *result.get("holdout", [])])
    groups = {c: {result["readout"]: s} for c, s in result.get("groups", {}).items()}
    for made in group_tables(groups):
        out.print(made)
    if "amp" not in result:
        show("no client has test data")
        return
    metric = result.get("metric", ACCURACY)
    over = "" if metric == ACCURACY else f", over the clients' {SITE_METRICS[metric].label}"
    text = f"{result['readout'].upper()}{over}: {scores(result, metric)}"
    if "classes" in result:
        show_classes(result)
        sure = result["calibration"]
        text += (
            f"; on average {percent(sure['confidence'])} % sure and "
            f"{percent(sure['accuracy'])} % right, calibration error "
            f"{percent(sure['expected_calibration_error'])}"
        )
    if result.get("alone"):
        text += "; every client judged by its own model, there is no shared one"
    show(text)
    if "mixtures" in result:
        show_mixtures(result["mixtures"])


def columns(result: dict[str, Any]) -> list[SiteMetric]:
    """The metrics that fit on a screen: the headline's, accuracy, the user's, what classes hide.

    `--json` has all of them.
    """
    first = result.get("metric", ACCURACY)
    known = next((c["metrics"] for c in result["clients"] if "metrics" in c), {ACCURACY: None})
    own = [name for name in known if name not in OURS_OF_SITES]
    wanted = (first, ACCURACY, *own, "balanced_accuracy", "auroc", "rmse", "r2", "concordance")
    if any(c["accuracy"] is not None for c in result["clients"]):
        known = {ACCURACY: None, **known}
    return [SITE_METRICS[name] for name in dict.fromkeys(wanted) if name in {first, *known}]


def cells(metrics: Sequence[SiteMetric], client: dict[str, Any]) -> list[str]:
    """One client's values, the first with its interval where there is one."""
    known = {ACCURACY: client["accuracy"], **client.get("metrics", {})}
    first = metrics[0]
    ends = client.get("intervals", {}).get(first.name)
    rest = [metric.show(known.get(metric.name)) for metric in metrics[1:]]
    return [spanned(first, known.get(first.name), ends), *rest]


def signed(metric: SiteMetric, gain: float | None) -> str:
    """What is gained, with its sign."""
    sign = "" if gain is None else "-" if gain < 0 else "+"
    return sign + metric.show(None if gain is None else abs(gain))


def show_resolution(clients: Sequence[dict[str, Any]]) -> None:
    """Where scores of both kinds are so near each other that the AUROC is a rough one."""
    rough = {c["name"]: c["resolution"]["auroc"] for c in clients if "resolution" in c}
    if rough:
        worst = max(rough, key=lambda name: rough[name])
        show(
            f"note: the AUROC of {len(rough)} of {len(clients)} sites is rough, as many samples "
            f"have the same score: at {worst} it may be off by {percent(rough[worst])} points"
        )


def show_classes(result: dict[str, Any]) -> None:
    """How well each class is known, and what it is taken for."""
    last = "most often taken for"
    classes = table("", "class", "tested", "accuracy %", last, texts=(last,))
    for k, c in enumerate(result["classes"]):
        wrong = [n if j != k else 0 for j, n in enumerate(result["confusion"][k])]
        most = max(wrong)
        taken = f"{result['classes'][wrong.index(most)]['name']} ({most})" if most else ""
        classes.add_row(c["name"], str(c["tested"]), percent(c["accuracy"]), taken)
    out.print(classes)


def show_mixtures(found: dict[str, Any]) -> None:
    """How a population that mixes the clients in other shares would fare."""
    drawn = found["drawn"]
    show(
        f"{found['count']} random mixtures of the clients: {percent(drawn['mean'])} % on average, "
        f"{percent(drawn['tenth'])} % at the tenth percentile, {percent(drawn['least'])} % at "
        f"worst; worst within χ² {found['radius']:g} of the pooled one: {percent(found['worst'])} "
        f"%; no mixture falls below {percent(found['bound'])} % (WLP, the paper's bound)"
    )
