"""`fedkf advise`: should these sites train together at all?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.options import DataDirOption, ObjectOption, QuietOption, SetOption, refuse_file
from fedkf.cli.run import run_with_progress
from fedkf.cli.tables import table

if TYPE_CHECKING:
    from fedkf.metrics.sites import SiteMetric
    from fedkf.runs.schema import Config
    from fedkf.runs.verdicts import Estimate, Gain, Judged, Site

HEADS = {"alone": "alone", "fedavg": "FedAvg", "shared": "shared", "personal": "personal"}
BESIDE = "fedavg"
TITLES = {"alone": "training alone", "fedavg": "FedAvg", "shared": "FedKF+"}
VERDICTS = {"mended": "personal", "either": "not shared", "untested": "few"}
"""How a verdict is shown, where not by its name."""


def advise(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A preset, a configuration, a .csv or .npz file, or a folder."
        ),
    ],
    set_: SetOption = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: what is predicted.")
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: where a row is from.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/advice-<data>]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.", min=0)] = None,
    quiet: QuietOption = False,
    as_json: ObjectOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Train alone, together and personalised at a small budget; who gains, and what follows."""
    from fedkf.core.payload import write_atomically
    from fedkf.runs.advising import fared, runs
    from fedkf.runs.config import parse_set
    from fedkf.runs.experiment import reporting_disk_errors

    named = {"data.target": target, "data.site": site, "engine.workers": workers}
    given = {key: value for key, value in named.items() if value is not None}
    folder = out_ or Path("runs") / f"advice-{Path(data).stem}"
    refuse_file(folder)
    configs = runs(data, {**given, **parse_set(set_ or [])}, (lambda text: None) if quiet else say)
    folders = train(configs, folder, quiet)
    found = fared(folders)
    result = told(found.sites, found.metric)
    with reporting_disk_errors(folder):
        write_atomically(folder / "advice.json", (json.dumps(result, indent=2) + "\n").encode())
    if as_json:
        typer.echo(json.dumps(result))
        return
    show_advice(result, found.metric)
    show(f"files: {folder}")


def train(configs: Mapping[str, Config], folder: Path, quiet: bool) -> dict[str, Path]:
    """Every run that is not finished, or what is left of it; the folder of each."""
    from fedkf.runs.store import RunFolder

    folders = {way: folder / way for way in configs}
    for number, (way, config) in enumerate(configs.items(), 1):
        title = f"{number} of {len(configs)}: {TITLES[way]}"
        begun = RunFolder(folders[way]).begun()
        advice = "the same command goes on"
        run_with_progress(config, folders[way], begun, quiet, title, advice)
    return folders


def told(judged: Sequence[Judged], metric: SiteMetric) -> dict[str, Any]:
    """Everything that is said, for programs."""
    from fedkf.runs.verdicts import (
        ALONE,
        AVERAGED,
        NOTHING,
        PERSONAL,
        SHARED,
        advice,
        judge,
        learned,
        overall,
    )

    sites = judge(judged, metric.higher_is_better)
    unit, scale = (" points", 100.0) if metric.percent else (f" of {metric.label}", 1.0)
    pairs = {
        "shared over alone": (SHARED, ALONE),
        "personal over alone": (PERSONAL, ALONE),
        "shared over fedavg": (SHARED, AVERAGED),
    }
    better = metric.higher_is_better
    over = {name: overall(judged, *pair, better) for name, pair in pairs.items()}
    sentence = advice(sites, over["shared over alone"], unit, scale) if learned(judged) else NOTHING
    return {
        "advice": sentence,
        "metric": metric.name,
        "sites": [described(site) for site in sites],
        "overall": {name: estimate(gain) for name, gain in over.items()},
    }


def described(site: Site) -> dict[str, Any]:
    gains = {"shared": estimate(site.shared), "personal": estimate(site.personal)}
    ways = {way: estimate(found) for way, found in site.ways.items()}
    own = {"name": site.name, "tested": site.tested, "verdict": site.verdict}
    return {**own, **ways, "gain": gains}


def estimate(found: Estimate | Gain) -> dict[str, Any]:
    interval = None if found.interval is None else list(found.interval)
    return {"value": found.value, "interval": interval}


def show_advice(result: Mapping[str, Any], metric: SiteMetric) -> None:
    """The table of sites, what it comes to over all, and the sentence."""
    title = f"{metric.heading} of each site, with 95 % intervals"
    rows = table(title, "site", "tests", *HEADS.values(), "better")
    for site in result["sites"]:
        cells = [with_interval(site[way], metric) for way in HEADS]
        cells[1] = metric.show(site[BESIDE]["value"])  # room for those that the verdict is about
        verdict = VERDICTS.get(site["verdict"], site["verdict"])
        rows.add_row(site["name"], str(site["tested"]), *cells, verdict)
    out.print(rows)
    for name, found in result["overall"].items():
        show(f"over all sites, {name}: {with_interval(found, metric, signed=True)}")
    show(f"advice: {result['advice']}")


def with_interval(found: Mapping[str, Any], metric: SiteMetric, signed: bool = False) -> str:
    """ "83.1 (75–90)", or "+4.2 (-1 to 9)" for a difference."""
    if found["value"] is None:
        return "–"
    sign = "+" if signed and found["value"] >= 0 else ""
    text = f"{sign}{metric.show(found['value'])}"
    if found["interval"] is None:
        return text
    ends = [f"{100 * end:.0f}" if metric.percent else f"{end:.3g}" for end in found["interval"]]
    return f"{text} ({(' to ' if signed else '–').join(ends)})"
